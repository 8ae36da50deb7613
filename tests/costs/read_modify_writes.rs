//! Atomic read-modify-writes of a warm seek: each costs some twenty cycles, and a miss where cores share the line.
//!
//! The test steps through the instructions of a child process with ptrace, and counts those that lock memory: with a
//! `lock` prefix, or `xchg` with memory. Those of mutexes, reference counts and epochs are among them. Where ptrace is
//! not allowed, and on other processors, the test is skipped.

use crate::store::{Store, VALUE, key, numbers};
use crate::system_calls::skip;
use nix::sys::ptrace;
use nix::sys::signal::{Signal, raise};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, gettid};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const CHILD: &str = "ALLUVIUM_LOCKS_CHILD";
/// Before the id of the child's thread in its output.
const THREAD: &str = "thread to trace: ";
/// Before the reason for which there is none.
const REFUSED: &str = "not traced: ";
/// Operations of each section.
const COUNTED: usize = 9;
/// More instructions than any operation has.
const STEPS_MAX: u64 = 5_000_000;
/// The child ends itself after this time, whatever it waits for.
const PATIENCE: Duration = Duration::from_secs(300);

/// What is counted, and the most read-modify-writes that such an operation may have.
///
/// A get pins the epoch, and takes and releases the view. A seek locks the iterator's cursor, pins the epoch, and
/// exchanges references: to the tree's leaf, to the run, to the page. A new iterator also takes a snapshot, and takes
/// and leaves the cursor of an earlier one.
const SECTIONS: [(&str, usize); 4] =
    [("one addition", 1), ("get", 3), ("seek of a kept iterator", 9), ("new iterator with a seek", 31)];

/// Runs an operation some times, each between two stops of this thread.
fn section(mut operation: impl FnMut(u64)) {
    numbers(100).for_each(&mut operation);
    for number in numbers(COUNTED as u64) {
        raise(Signal::SIGSTOP).unwrap();
        operation(number);
        raise(Signal::SIGSTOP).unwrap();
    }
}

/// The child runs the operations, in the order of `SECTIONS`. The test harness can only start tests, so its entry point
/// is an ignored test.
#[test]
#[ignore = "not a test, but the entry point of a child process"]
fn child() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    std::thread::spawn(|| {
        std::thread::sleep(PATIENCE);
        std::process::abort();
    });
    let store = Store::new(64).into_files();
    let db = &store.db;
    db.optimize(..).unwrap();
    db.settle().unwrap();
    // Only this thread is traced. Its parent waits for it, so it must be traced before the parent learns its id.
    if let Err(why) = ptrace::traceme() {
        println!("{REFUSED}{why}");
        return;
    }
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
        assert_eq!(pairs.key(), Some(&key(number)[..]));
    });
    drop(pairs);
    section(|number| {
        let mut pairs = db.iter().unwrap();
        pairs.seek(key(number)).unwrap();
        assert_eq!(pairs.key(), Some(&key(number)[..]));
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

/// The child, of which one thread is traced. It ends with this value.
struct Traced {
    child: Child,
    thread: Pid,
}

impl Traced {
    fn wait(&self) -> nix::Result<WaitStatus> {
        waitpid(self.thread, Some(WaitPidFlag::__WALL))
    }

    fn wait_for_stop(&self) -> nix::Result<()> {
        let status = self.wait()?;
        assert!(matches!(status, WaitStatus::Stopped(_, Signal::SIGSTOP)), "the child did not stop: {status:?}");
        Ok(())
    }

    /// Steps through the child from one stop to the next. Returns the addresses of instructions that lock.
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    fn step_through(&self) -> nix::Result<Vec<u64>> {
        let mut found = Vec::new();
        for _ in 0..STEPS_MAX {
            let at = ptrace::getregs(self.thread)?.rip;
            if locks(ptrace::read(self.thread, at as ptrace::AddressType)?.to_le_bytes()) {
                found.push(at);
            }
            ptrace::step(self.thread, None)?;
            match self.wait()? {
                WaitStatus::Stopped(_, Signal::SIGTRAP) => {}
                WaitStatus::Stopped(_, Signal::SIGSTOP) => return Ok(found),
                other => panic!("the child ended or met a signal: {other:?}"),
            }
        }
        panic!("the child has taken {STEPS_MAX} steps");
    }

    #[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
    fn step_through(&self) -> nix::Result<Vec<u64>> {
        let _ = (locks, STEPS_MAX);
        Err(nix::Error::ENOSYS)
    }

    /// The places of the instructions that lock, by section and operation.
    fn counted(&self) -> nix::Result<Vec<Vec<Vec<u64>>>> {
        let operation = || {
            self.wait_for_stop()?;
            let found = self.step_through()?;
            ptrace::cont(self.thread, None)?;
            Ok(found)
        };
        SECTIONS.iter().map(|_| (0..COUNTED).map(|_| operation()).collect()).collect()
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        let _ = self.child.kill();
        // The process does not end before its traced thread was waited for.
        while let Ok(status) = self.wait() {
            if matches!(status, WaitStatus::Exited(..) | WaitStatus::Signaled(..)) {
                break;
            }
        }
        let _ = self.child.wait();
    }
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
    // Open until the child has ended, which would fail if it could not print.
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let line =
        lines.find(|line| line.contains(THREAD) || line.contains(REFUSED)).expect("a child that fails is an error");
    let Some((_, thread)) = line.split_once(THREAD) else {
        child.wait().unwrap();
        return skip(&format!("read-modify-writes were not counted: {line}"));
    };
    let traced = Traced { child, thread: Pid::from_raw(thread.parse().unwrap()) };
    let sections = match traced.counted() {
        Ok(sections) => sections,
        Err(why) => {
            drop(traced);
            return skip(&format!("read-modify-writes were not counted: {why}"));
        }
    };
    for ((what, most), mut places) in SECTIONS.into_iter().zip(sections) {
        // Now and then an operation also collects garbage of the epochs.
        places.sort_by_key(Vec::len);
        let median = &places[COUNTED / 2];
        println!("{what}: {} read-modify-writes", median.len());
        assert!(!median.is_empty(), "{what}: none is counted");
        assert!(median.len() <= most, "{} read-modify-writes a {what}, {most} allowed, at {median:x?}", median.len());
    }
}
