//! Mounting and unmounting.

use super::adapter::Adapter;
use super::options::MountOptions;
use crate::error::{FsError, FsResult};
use crate::fs::SkipFs;
use crate::store::{AlluviumStore, Store};
use fuser::{BackgroundSession, Config, MountOption, Session, SessionACL};
use nix::poll::{PollFd, PollFlags, PollTimeout};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How often a mount that waits for signals looks whether it was unmounted.
const LOOK_MS: u16 = 200;

/// A mounted file system, which threads of its own serve. Dropping it unmounts it and closes the store.
pub struct Mounted<S: Store> {
    fs: Arc<SkipFs<S>>,
    mount_point: PathBuf,
    /// `None` after the end of the session.
    session: Option<BackgroundSession>,
    /// Whether it was unmounted, and the session only has to end.
    is_unmounted: bool,
}

fn of_io(what: &str, error: &io::Error) -> FsError {
    FsError::with_detail(error.raw_os_error().unwrap_or(libc::EIO), format!("{what}: {error}"))
}

/// Mounts a file system and returns.
///
/// # Errors
/// Those of the system: `EPERM` without the permission to mount, `ENOENT` without FUSE or a mount point.
pub fn spawn<S: Store + 'static>(
    fs: Arc<SkipFs<S>>,
    mount_point: impl AsRef<Path>,
    options: &MountOptions,
) -> FsResult<Mounted<S>> {
    // An absolute path, because the process may change its directory.
    let mount_point = mount_point.as_ref();
    let mount_point = mount_point.canonicalize().map_err(|error| of_io("the mount point", &error))?;
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName("skipfs".into()),
        MountOption::Subtype("skipfs".into()),
        MountOption::DefaultPermissions,
        MountOption::NoAtime,
        if options.read_only { MountOption::RO } else { MountOption::RW },
    ];
    config.acl = if options.allow_other { SessionACL::All } else { SessionACL::Owner };
    config.n_threads = Some(options.threads.max(1));
    config.clone_fd = true;
    let adapter = Adapter::new(Arc::clone(&fs), options.clone());
    let session = Session::new(adapter, &mount_point, &config).and_then(Session::spawn);
    let session = session.map_err(|error| of_io("cannot mount", &error))?;
    Ok(Mounted { fs, mount_point, session: Some(session), is_unmounted: false })
}

/// Mounts the file system of a store of Alluvium, and serves it until it is unmounted or the process gets `SIGINT` or
/// `SIGTERM`. Then it syncs and closes the store.
///
/// If the mount is in use at the first signal, it stays, and a message says so. A second signal detaches it: what is
/// still open fails from then on.
///
/// The two signals are blocked in the calling thread before others are started. So a program calls this before it
/// starts threads.
///
/// # Errors
/// `EBUSY` if the store is open elsewhere, for instance by another mount; `ENOENT` if there is no store, no file system
/// in it, or no mount point; those of mounting and of closing.
pub fn mount(
    store: impl AsRef<Path>,
    store_options: alluvium::Options,
    mount_point: impl AsRef<Path>,
    options: &MountOptions,
) -> FsResult<()> {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGINT);
    signals.add(Signal::SIGTERM);
    let of_nix = |error: nix::errno::Errno| FsError::with_detail(error as i32, "waiting for signals");
    signals.thread_block().map_err(of_nix)?;
    let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
    let arrived = SignalFd::with_flags(&signals, flags).map_err(of_nix)?;
    let store = AlluviumStore::open(store, store_options.create_if_missing(false))?;
    let fs = Arc::new(SkipFs::open(store)?);
    let mut mounted = spawn(fs, mount_point, options)?;
    let mut is_asked_again = false;
    while !mounted.is_finished() {
        let mut wait = [PollFd::new(arrived.as_fd(), PollFlags::POLLIN)];
        match nix::poll::poll(&mut wait, PollTimeout::from(LOOK_MS)) {
            Err(nix::errno::Errno::EINTR) | Ok(0) => continue,
            Err(error) => return Err(of_nix(error)),
            Ok(_) => while let Ok(Some(_)) = arrived.read_signal() {},
        }
        match mounted.try_unmount(is_asked_again) {
            Err(error) if error.errno() == libc::EBUSY => {
                eprintln!("{} is in use; stop what uses it, or send the signal again", mounted.mount_point.display());
                mounted.fs.fsync()?;
                is_asked_again = true;
            }
            Err(error) => return Err(error),
            // What is still open keeps the session alive, but not the store.
            Ok(()) if is_asked_again => return mounted.fs.close(),
            Ok(()) => break,
        }
    }
    mounted.finish()
}

impl<S: Store> Mounted<S> {
    /// The file system.
    pub fn fs(&self) -> &SkipFs<S> {
        &self.fs
    }

    /// Where it is mounted.
    pub fn mount_point(&self) -> &Path {
        &self.mount_point
    }

    /// Whether the session has ended, because it was unmounted.
    pub fn is_finished(&self) -> bool {
        self.session.as_ref().is_none_or(|session| session.guard.is_finished())
    }

    /// Unmounts, waits for the last request, syncs, and closes the store.
    ///
    /// # Errors
    /// `EBUSY` if it is in use: then it stays mounted. Those of closing the store.
    pub fn unmount(&mut self) -> FsResult<()> {
        self.try_unmount(false)?;
        self.finish()
    }

    fn try_unmount(&mut self, detaches: bool) -> FsResult<()> {
        if self.is_finished() {
            self.is_unmounted = true;
            return Ok(());
        }
        let flags = if detaches { rustix::mount::UnmountFlags::DETACH } else { rustix::mount::UnmountFlags::empty() };
        match rustix::mount::unmount(&self.mount_point, flags) {
            // The second: it was not mounted any more.
            Ok(()) | Err(rustix::io::Errno::INVAL) => {
                self.is_unmounted = true;
                Ok(())
            }
            // Without the permission `fusermount` does it, in `finish`.
            Err(rustix::io::Errno::PERM) => Ok(()),
            Err(error) => Err(FsError::with_detail(error.raw_os_error(), "cannot unmount")),
        }
    }

    /// Waits for the end of the session, and closes the store.
    fn finish(&mut self) -> FsResult<()> {
        let is_over = self.is_unmounted || self.is_finished();
        let end = if is_over { BackgroundSession::join } else { BackgroundSession::umount_and_join };
        let ended = self.session.take().map_or(Ok(()), end);
        let closed = self.fs.close();
        ended.map_err(|error| of_io("the session", &error))?;
        closed
    }
}

impl<S: Store> Drop for Mounted<S> {
    fn drop(&mut self) {
        // `unmount` reports errors.
        let _ = self.finish();
    }
}
