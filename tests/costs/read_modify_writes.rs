//! Atomic read-modify-writes of a warm seek: each costs some twenty cycles, and a miss where cores share the line.
//!
//! The test steps through the instructions of a child process with ptrace, and counts those that lock memory: with a
//! `lock` prefix, or `xchg` with memory. Those of mutexes, reference counts and epochs are among them. Where ptrace is not
//! allowed, and on other processors, the test is skipped.

use crate::store::{Store, VALUE, key, numbers};
use crate::system_calls::skip;
use nix::sys::ptrace;
use nix::sys::signal::{Signal, raise};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, gettid};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

const CHILD: &str = "ALLUVIUM_LOCKS_CHILD";
/// Before the id of the child's thread in its output.
const THREAD: &str = "thread to trace: ";
/// Operations of each section.
const COUNTED: u64 = 4;
/// More instructions than all sections have.
const STEPS_MAX: u64 = 20_000_000;

/// What is counted, and the most read-modify-writes that one operation may have.
///
/// A get pins the epoch, and takes and releases the view. A seek locks the iterator's cursor, pins the epoch, and exchanges
/// references: to the tree's leaf, to the run, to the page. A new iterator also takes a snapshot, and takes and leaves the
/// cursor of an earlier one.
const SECTIONS: [(&str, f64); 4] =
    [("one addition", 1.0), ("get", 3.0), ("seek of a kept iterator", 9.0), ("new iterator with a seek", 30.0)];

/// Runs an operation so often, between two stops of the process.
fn section(mut operation: impl FnMut(u64)) {
    numbers(100).for_each(&mut operation);
    raise(Signal::SIGSTOP).unwrap();
    numbers(COUNTED).for_each(&mut operation);
    raise(Signal::SIGSTOP).unwrap();
}

/// The child runs the operations, in the order of `SECTIONS`. The test harness can only start tests, so its entry point is
/// an ignored test.
#[test]
#[ignore = "not a test, but the entry point of a child process"]
fn child() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let store = Store::new(64).into_files();
    let db = &store.db;
    db.optimize::<&[u8]>(..).unwrap();
    db.settle().unwrap();
    // Only this thread is traced. Its parent waits for it, so it must be traced before the parent learns its id.
    ptrace::traceme().unwrap();
    println!("{THREAD}{}", gettid());
    let counter = std::sync::atomic::AtomicU64::new(0);
    section(|number| {
        counter.fetch_add(std::hint::black_box(number), std::sync::atomic::Ordering::Relaxed);
    });
    let mut out = Vec::with_capacity(VALUE.len());
    section(|number| assert!(db.get_into(key(number), &mut out).unwrap()));
    let mut pairs = db.iter().unwrap();
    section(|number| {
        pairs.seek(key(number)).unwrap();
        assert!(pairs.valid() && pairs.key() == key(number));
    });
    drop(pairs);
    section(|number| {
        let mut pairs = db.iter().unwrap();
        pairs.seek(key(number)).unwrap();
        assert!(pairs.valid() && pairs.key() == key(number));
    });
}

/// Whether the instruction that begins with these bytes locks memory.
fn locks(bytes: [u8; 8]) -> bool {
    let mut rest = &bytes[..];
    while let [0x66 | 0x67 | 0x2e | 0x36 | 0x3e | 0x26 | 0x64 | 0x65 | 0xf2 | 0xf3, after @ ..] = rest {
        rest = after;
    }
    if let [0x40..=0x4f, after @ ..] = rest {
        rest = after;
    }
    match rest {
        [0xf0, ..] => true,
        // `xchg`, unless both operands are registers.
        [0x86 | 0x87, operands, ..] => operands >> 6 != 0b11,
        _ => false,
    }
}

/// Steps through the child from one stop to the next. Returns the addresses of instructions that lock.
#[cfg(target_arch = "x86_64")]
fn step_through(child: Pid) -> nix::Result<Vec<u64>> {
    let mut found = Vec::new();
    for _ in 0..STEPS_MAX {
        let at = ptrace::getregs(child)?.rip;
        if locks(ptrace::read(child, at as ptrace::AddressType)?.to_le_bytes()) {
            found.push(at);
        }
        ptrace::step(child, None)?;
        match waitpid(child, Some(WaitPidFlag::__WALL))? {
            WaitStatus::Stopped(_, Signal::SIGTRAP) => {}
            WaitStatus::Stopped(_, Signal::SIGSTOP) => return Ok(found),
            other => panic!("the child ended or met a signal: {other:?}"),
        }
    }
    panic!("the child has taken {STEPS_MAX} steps");
}

/// The places of the instructions that lock, section by section.
#[cfg(target_arch = "x86_64")]
fn counted(child: Pid) -> nix::Result<Vec<Vec<u64>>> {
    let mut sections = Vec::new();
    for section in 1..=SECTIONS.len() {
        let stop = waitpid(child, Some(WaitPidFlag::__WALL))?;
        assert!(matches!(stop, WaitStatus::Stopped(_, Signal::SIGSTOP)), "the child did not begin a section: {stop:?}");
        sections.push(step_through(child)?);
        // A thread that ends while it is traced would keep its process from ending.
        if section < SECTIONS.len() { ptrace::cont(child, None)? } else { ptrace::detach(child, None)? }
    }
    Ok(sections)
}

#[cfg(not(target_arch = "x86_64"))]
fn counted(_: Pid) -> nix::Result<Vec<Vec<u64>>> {
    Err(nix::Error::ENOSYS)
}

#[test]
fn a_warm_seek_makes_few_read_modify_writes() {
    assert!(locks([0xf0, 0x48, 0x0f, 0xb1, 0, 0, 0, 0]) && locks([0x48, 0x87, 0x07, 0, 0, 0, 0, 0]));
    assert!(!locks([0x48, 0x87, 0xc7, 0, 0, 0, 0, 0]) && !locks([0x48, 0x89, 0x07, 0, 0, 0, 0, 0]));
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture", "read_modify_writes::child"])
        .env(CHILD, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let thread = lines.find_map(|line| line.split_once(THREAD)?.1.parse().ok()).expect("the child names its thread");
    let thread = Pid::from_raw(thread);
    let sections = match counted(thread) {
        Ok(sections) => sections,
        Err(why) => {
            child.kill().unwrap();
            child.wait().unwrap();
            return skip(&format!("read-modify-writes were not counted: {why}"));
        }
    };
    assert!(child.wait().unwrap().success());
    for ((what, most), places) in SECTIONS.into_iter().zip(&sections) {
        let each = places.len() as f64 / COUNTED as f64;
        println!("{what}: {each} read-modify-writes");
        assert!(each <= most, "{each} read-modify-writes a {what}, {most} allowed, at {places:x?}");
    }
    assert_eq!(sections[0].len() as u64, COUNTED, "an addition is not counted");
}
