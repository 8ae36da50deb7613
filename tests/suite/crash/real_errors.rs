//! Errors of a real system under a running store: system calls that fail (injected by `strace`), no free file
//! descriptors, a directory that is no longer writable or was removed. Each test runs the store in a child process. The
//! store becomes read-only, every later error and the statistics give the reason, and nothing hangs or panics. Once the
//! cause is removed, every acknowledged write is there.

use crate::support::child;
use crate::support::skip;
use crate::support::tiny;
use alluvium::{Db, Error, Options};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const CHILD: &str = "ALLUVIUM_ERRORS_CHILD";
const TROUBLE: &str = "ALLUVIUM_ERRORS_TROUBLE";
const KEYS: u32 = 100_000;
const PATIENCE: Duration = Duration::from_secs(60);
/// A user who may not read root's files.
const NOBODY: u32 = 65_534;

fn options() -> Options {
    tiny().sync_interval(None)
}

fn key(at: u32) -> String {
    format!("key{at:06}")
}

fn value(at: u32) -> Vec<u8> {
    at.to_le_bytes().repeat(60)
}

/// The child: writes until the store refuses writes, and records the number of acknowledged writes.
pub fn child() {
    let directory = std::env::var_os(CHILD).unwrap();
    let trouble = std::env::var(TROUBLE).unwrap();
    let path = Path::new(&directory).join("store");
    let db = Db::open(&path, options()).unwrap();
    for at in 0..200 {
        db.put(key(at), value(at)).unwrap();
    }
    let deadline = Instant::now() + PATIENCE;
    match trouble.as_str() {
        "descriptors" => forbid_descriptors(),
        "permissions" => std::fs::set_permissions(&path, PermissionsExt::from_mode(0o500)).unwrap(),
        _ => {}
    }
    let mut acknowledged = 200;
    let error = loop {
        assert!(Instant::now() < deadline && acknowledged < KEYS, "the error does not occur");
        if let Err(error) = db.put(key(acknowledged), value(acknowledged)) {
            break error;
        }
        acknowledged += 1;
        if acknowledged.is_multiple_of(50)
            && let Err(error) = if acknowledged.is_multiple_of(500) { db.flush() } else { db.sync() }
        {
            break error;
        }
    };
    println!("first error: {error}");
    // The first error may come directly from the system, before background work has reported its own; later errors are
    // equal.
    while db.put("more", "").is_ok() {
        assert!(Instant::now() < deadline, "the store still accepts writes");
    }
    let Err(Error::ReadOnly { reason }) = db.put("more", "") else { panic!("the store accepts writes again") };
    assert!(reason.contains("store"), "{reason}");
    for result in [db.delete(key(1)), db.sync(), db.flush(), db.settle()] {
        assert!(matches!(&result, Err(Error::ReadOnly { reason: again }) if *again == reason), "{result:?}");
    }
    assert!(db.stats().failure.is_some_and(|failure| failure.contains(&reason)));
    // Data in memory can always be read; a read of other data gives the value or an error.
    assert_eq!(db.get(key(acknowledged - 1)).unwrap(), Some(value(acknowledged - 1)));
    for at in 0..acknowledged {
        assert!(db.get(key(at)).is_ok_and(|found| found == Some(value(at))) || trouble != "fdatasync");
    }
    assert!(db.close().is_err());
    std::fs::write(Path::new(&directory).join("acknowledged"), acknowledged.to_string()).unwrap();
    println!("reason: {reason}");
}

/// Limits open files to the current number.
fn forbid_descriptors() {
    let open = std::fs::read_dir("/proc/self/fd").unwrap().count() as u64;
    let limit = libc::rlimit { rlim_cur: open.saturating_sub(1), rlim_max: open };
    // SAFETY: the call reads one `rlimit`, which outlives it.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }, 0);
}

/// Runs a child that gets the error, removes the cause, and opens the store.
fn survive(trouble: &str, around: &[&str], reason: &str, as_nobody: bool) {
    let directory = tempfile::tempdir().unwrap();
    let program = std::env::current_exe().unwrap();
    let mut words = around.iter().map(std::ffi::OsStr::new).chain([program.as_os_str()]);
    let mut command = Command::new(words.next().unwrap());
    command.args(words).args(child::arguments());
    let (variable, role) = child::name("real error");
    command
        .env(variable, role)
        .env(CHILD, directory.path())
        .env(TROUBLE, trouble)
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null());
    if as_nobody {
        std::os::unix::fs::chown(directory.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        command.uid(NOBODY).gid(NOBODY);
    }
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{trouble}: {text}");
    assert!(text.contains("reason: ") && text.contains(reason), "{trouble}: {text}");
    println!("{trouble}: {}", text.lines().find(|line| line.contains("reason: ")).unwrap_or_default());
    let path = directory.path().join("store");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o700)).unwrap();
    let acknowledged: u32 =
        std::fs::read_to_string(directory.path().join("acknowledged")).unwrap().trim().parse().unwrap();
    let db = Db::open(&path, options()).unwrap();
    for at in 0..acknowledged {
        assert_eq!(db.get(key(at)).unwrap(), Some(value(at)), "{trouble}: {at} of {acknowledged}");
    }
    db.put("more", "").unwrap();
    db.flush().unwrap();
    db.verify().unwrap();
    db.close().unwrap();
}

/// A system call of the child fails from the n-th call on, counted separately in each thread.
fn survive_injected(call: &str, nth: u32, reason: &str) {
    let inject = format!("inject={call}:error=EIO:when={nth}+");
    let around = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={call}"), "-e", &inject];
    let works = Command::new("strace").args(["-qq", "-o", "/dev/null", "true"]).status();
    if !works.is_ok_and(|status| status.success()) {
        return skip(&format!("{call}: strace is missing or is not allowed to trace"));
    }
    survive(call, &around, reason, false);
}

#[test]
fn a_failed_sync_makes_the_store_read_only() {
    survive_injected("fdatasync", 7, "cannot sync");
}

#[test]
fn a_failed_write_makes_the_store_read_only() {
    survive_injected("pwrite64", 9, "cannot write");
}

#[test]
fn a_failed_rename_makes_the_store_read_only() {
    survive_injected("renameat", 3, "cannot rename");
}

#[test]
fn without_file_descriptors_the_store_goes_read_only() {
    if std::env::var(CHILD).is_err() {
        survive("descriptors", &[], "Too many open files", false);
    }
}

#[test]
fn a_directory_that_may_no_longer_be_written() {
    // SAFETY: a plain call.
    if unsafe { libc::geteuid() } != 0 {
        return survive("permissions", &[], "Permission denied", false);
    }
    // Root may write anywhere, so the child runs as another user, if that user can run this program.
    let program = std::env::current_exe().unwrap();
    let runs = Command::new(program).args(["--list"]).stdout(Stdio::null()).uid(NOBODY).gid(NOBODY).status();
    if runs.is_ok_and(|status| status.success()) {
        survive("permissions", &[], "Permission denied", true);
    } else {
        skip(&format!("user {NOBODY} cannot run {}", std::env::current_exe().unwrap().display()));
    }
}
