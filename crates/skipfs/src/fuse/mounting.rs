//! Mounting and unmounting.

use super::adapter::Adapter;
use super::mount_table;
use super::options::MountOptions;
use super::process::announce;
use super::signals::Signals;
use crate::error::{FsError, FsResult};
use crate::fs::{OpenOptions, SkipFs};
use crate::store::{AlluviumStore, Store};
use fuser::{BackgroundSession, Config, MountOption, Session, SessionACL};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How often a mount that waits for signals looks whether it was unmounted.
const LOOK_MS: u16 = 200;
const DEVICE: &str = "/dev/fuse";
const NO_DEVICE: &str =
    "there is no /dev/fuse; `modprobe fuse` loads the kernel's module, and a container needs the device";

/// A mounted file system, which threads of its own serve. Dropping it unmounts it and closes the store.
pub struct Mounted<S: Store> {
    fs: Arc<SkipFs<S>>,
    mount_point: PathBuf,
    /// `None` after the end of the session.
    session: Option<BackgroundSession>,
    /// Whether it was unmounted, and the session only has to end.
    is_unmounted: bool,
    /// Tells `unmount` which process serves the store. Closed last.
    _announced: Option<File>,
}

fn of_io(what: &str, error: &io::Error) -> FsError {
    FsError::with_detail(error.raw_os_error().unwrap_or(libc::EIO), format!("{what}: {error}"))
}

/// Mounts a file system and returns.
///
/// # Errors
/// Those of the system: `EPERM` or `EACCES` without the permission to mount, `ENODEV` without FUSE, `ENOENT` without a
/// mount point.
pub fn spawn<S: Store + 'static>(
    fs: Arc<SkipFs<S>>,
    mount_point: impl AsRef<Path>,
    options: &MountOptions,
) -> FsResult<Mounted<S>> {
    // An absolute path, because the process may change its directory.
    let mount_point = mount_point.as_ref();
    let mount_point = mount_point.canonicalize().map_err(|error| of_io("the mount point", &error))?;
    File::options().read(true).write(true).open(DEVICE).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => FsError::with_detail(libc::ENODEV, NO_DEVICE),
        _ => of_io("cannot open /dev/fuse", &error),
    })?;
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName(mount_table::source(options.store.as_deref())),
        // Not `Subtype`, which only the program that mounts for users gets.
        MountOption::CUSTOM(format!("subtype={}", mount_table::SUBTYPE)),
        MountOption::DefaultPermissions,
        MountOption::NoAtime,
        if options.read_only { MountOption::RO } else { MountOption::RW },
    ];
    config.acl = if options.allow_other { SessionACL::All } else { SessionACL::Owner };
    config.n_threads = Some(options.threads.max(1));
    config.clone_fd = true;
    let announced = options.store.as_deref().and_then(announce);
    let adapter = Adapter::new(Arc::clone(&fs), options.clone());
    let notifier = adapter.notifier();
    let session = Session::new(adapter, &mount_point, &config).map_err(|error| cannot_mount(&error))?;
    // The kernel has no attributes before the session answers its first request.
    let _ = notifier.set(session.notifier());
    let session = session.spawn().map_err(|error| cannot_mount(&error))?;
    Ok(Mounted { fs, mount_point, session: Some(session), is_unmounted: false, _announced: announced })
}

/// What the kernel or the program that mounts for users said. The device was found.
fn cannot_mount(error: &io::Error) -> FsError {
    if error.kind() == io::ErrorKind::NotFound {
        let what = "mounting needs root, or the program `fusermount3` (package fuse3)";
        return FsError::with_detail(libc::EPERM, what);
    }
    of_io("cannot mount", error)
}

/// Mounts the file system of a store of Alluvium, and serves it (`Mounted::serve`). Blocks the signals in the calling
/// thread (`Signals::block`).
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
    let signals = Signals::block()?;
    let path = store.as_ref();
    let store = AlluviumStore::open(path, store_options.create_if_missing(false))?;
    let options = MountOptions { store: path.canonicalize().ok(), ..options.clone() };
    let open = OpenOptions { idle_content_bytes: Some(store.idle_content_bytes()), ..OpenOptions::default() };
    spawn(Arc::new(SkipFs::open_with(store, &open)?), mount_point, &options)?.serve(&signals)
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

    /// Serves the mount until it is unmounted or one of the signals comes. Then it syncs and closes the store.
    ///
    /// If the mount is in use at the first signal, it stays, and a message says so. A second signal detaches it: what
    /// is still open fails from then on.
    ///
    /// # Errors
    /// Those of unmounting and of closing.
    pub fn serve(mut self, signals: &Signals) -> FsResult<()> {
        let mut is_asked_again = false;
        while !self.is_finished() {
            if !signals.wait(LOOK_MS)? {
                continue;
            }
            match self.try_unmount(is_asked_again) {
                Err(error) if error.errno() == libc::EBUSY => {
                    let place = self.mount_point.display();
                    // There may be no reader any more.
                    let _ = writeln!(io::stderr(), "{place} is in use; stop what uses it, or send the signal again");
                    is_asked_again = true;
                    self.fs.fsync()?;
                }
                Err(error) => return Err(error),
                Ok(()) if is_asked_again => {
                    // What is still open keeps the session alive, but not the store. Its threads end with the process.
                    std::mem::forget(self.session.take());
                    return self.fs.close();
                }
                Ok(()) => break,
            }
        }
        self.finish()
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
