//! Mounts that no other process sees. The tests of the command line use this, too.

/// Reports why a test cannot run here. In CI that is a failure: everything that the tests need is there.
pub fn skip(what: &str) {
    assert!(std::env::var_os("CI").is_none(), "skipped, which is a failure in CI: {what}");
    println!("SKIPPED: {what}");
}

/// Runs a test on a thread whose mounts no other process sees. Skips the test without FUSE or the permission to mount.
pub fn with_private_mounts(name: &str, test: impl FnOnce() + Send) {
    if let Err(error) = std::fs::OpenOptions::new().read(true).write(true).open("/dev/fuse") {
        return skip(&format!("{name}: mounting needs /dev/fuse ({error})"));
    }
    let outcome = std::thread::scope(|scope| {
        let run = scope.spawn(|| -> nix::Result<()> {
            leave_mounts()?;
            test();
            Ok(())
        });
        run.join()
    });
    match outcome {
        Ok(Ok(())) => {}
        Ok(Err(error)) => skip(&format!("{name}: mounting needs root ({error})")),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

fn leave_mounts() -> nix::Result<()> {
    use nix::mount::{MsFlags, mount};
    nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNS)?;
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)
}
