//! Real file systems for one test: a small ext4 on a loop device, whose power can be cut, and a tmpfs of limited size.
//!
//! They need root. Each is mounted in a private mount namespace of the calling thread, and the loop device detaches
//! itself, so nothing is left behind, even if the test is killed.

use alluvium::storage::{Life, PosixStorage, Storage};
use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// `_IOR('X', 125, __u32)`: the file system stops at once, as if the power were gone.
const EXT4_IOC_SHUTDOWN: libc::c_ulong = 0x8004_587d;
/// Does not write the journal first.
const SHUTDOWN_NO_LOG_FLUSH: u32 = 2;
const LOOP_CTL_GET_FREE: libc::c_ulong = 0x4c82;
const LOOP_CONFIGURE: libc::c_ulong = 0x4c0a;
/// The device detaches itself after its last close.
const LO_FLAGS_AUTOCLEAR: u32 = 4;

/// Runs a test on a thread that may mount file systems that no other process sees. Skips the test without the
/// permission.
pub fn with_private_mounts(name: &str, test: impl FnOnce() + Send) {
    let outcome = std::thread::scope(|scope| {
        let run = scope.spawn(|| match leave_mounts() {
            Ok(()) => {
                test();
                None
            }
            Err(error) => Some(error),
        });
        run.join()
    });
    match outcome {
        Ok(None) => {}
        Ok(Some(error)) => super::skip(&format!("{name}: mounting needs root ({error})")),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Gives the calling thread a private mount namespace.
fn leave_mounts() -> io::Result<()> {
    // SAFETY: touches no memory; threads and processes that this thread starts inherit the namespace, others keep
    // theirs.
    check(unsafe { libc::unshare(libc::CLONE_NEWNS) })?;
    // SAFETY: the strings end with a zero byte and outlive the call.
    check(unsafe {
        libc::mount(
            c"none".as_ptr(),
            c"/".as_ptr(),
            std::ptr::null(),
            libc::MS_REC | libc::MS_PRIVATE,
            std::ptr::null(),
        )
    })
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn c_path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).unwrap()
}

fn mount(source: &Path, at: &Path, kind: &str, options: &str) -> io::Result<()> {
    let (source, at) = (c_path(source), c_path(at));
    let (kind, options) = (CString::new(kind).unwrap(), CString::new(options).unwrap());
    // SAFETY: all four strings end with a zero byte and outlive the call.
    check(unsafe { libc::mount(source.as_ptr(), at.as_ptr(), kind.as_ptr(), 0, options.as_ptr().cast()) })
}

/// Unmounts. A process that was just killed may keep the mount busy for a moment.
fn unmount(at: &Path) -> io::Result<()> {
    let path = c_path(at);
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        // SAFETY: the string ends with a zero byte and outlives the call.
        match check(unsafe { libc::umount2(path.as_ptr(), 0) }) {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(1));
            }
            result => return result,
        }
    }
}

/// An ext4 on a loop device over an image in a temporary directory.
pub struct Ext4 {
    directory: tempfile::TempDir,
    /// Keeps the loop device attached while the file system is not mounted.
    device: Option<File>,
    device_path: PathBuf,
}

impl Ext4 {
    /// Makes and mounts a file system of `bytes`. `None` if this machine cannot; the test is then skipped.
    pub fn new(name: &str, bytes: u64) -> Option<Self> {
        Self::made(name, tempfile::tempdir().and_then(|directory| Self::make(directory, bytes)))
    }

    /// The same with its image in memory, for tests that do not depend on the time of a sync.
    pub fn in_memory(name: &str, bytes: u64) -> Option<Self> {
        let directory = tempfile::tempdir();
        Self::made(
            name,
            directory.and_then(|directory| {
                mount(Path::new("none"), directory.path(), "tmpfs", "")?;
                Self::make(directory, bytes)
            }),
        )
    }

    fn made(name: &str, made: io::Result<Self>) -> Option<Self> {
        made.inspect_err(|error| super::skip(&format!("{name}: no ext4 can be made on a loop device: {error}"))).ok()
    }

    fn make(directory: tempfile::TempDir, bytes: u64) -> io::Result<Self> {
        let image = directory.path().join("image");
        File::create(&image)?.set_len(bytes)?;
        let made = Command::new("mkfs.ext4").args(["-q", "-F", "-m", "0"]).arg(&image).stdin(Stdio::null()).output()?;
        if !made.status.success() {
            return Err(io::Error::other(String::from_utf8_lossy(&made.stderr).into_owned()));
        }
        std::fs::create_dir(directory.path().join("mount"))?;
        let (device, device_path) = attach(&image)?;
        let made = Self { directory, device: Some(device), device_path };
        made.mount()?;
        Ok(made)
    }

    /// Where it is mounted.
    pub fn path(&self) -> PathBuf {
        self.directory.path().join("mount")
    }

    /// A directory outside the mount. A power cut does not affect its files.
    pub fn beside(&self) -> &Path {
        self.directory.path()
    }

    /// The life of the current mount: one boot of the kernel and one mount of the file system.
    pub fn life(&self) -> Option<Life> {
        PosixStorage::new(self.path()).life()
    }

    fn mount(&self) -> io::Result<()> {
        mount(&self.device_path, &self.path(), "ext4", "")
    }

    /// Cuts the power: from now on nothing reaches the disk, and every use of the file system is an error.
    pub fn cut(&self) {
        let root = File::open(self.path()).unwrap();
        // SAFETY: the request reads one `u32` at the address, which outlives the call.
        check(unsafe { libc::ioctl(root.as_raw_fd(), EXT4_IOC_SHUTDOWN, &SHUTDOWN_NO_LOG_FLUSH) }).unwrap();
    }

    /// Makes the file system read-only. No file may be open for writing.
    pub fn make_read_only(&self) {
        let (none, at) = (std::ptr::null(), c_path(&self.path()));
        // SAFETY: the path ends with a zero byte and outlives the call; the other addresses are null, which this call
        // allows.
        check(unsafe { libc::mount(none, at.as_ptr(), none, libc::MS_REMOUNT | libc::MS_RDONLY, none.cast()) })
            .unwrap();
    }

    /// Unmounts and mounts again, which ends a `cut`. The file system must not be in use.
    pub fn remount(&self) {
        unmount(&self.path()).unwrap();
        self.mount().unwrap();
    }
}

impl Drop for Ext4 {
    fn drop(&mut self) {
        // If this fails, the mount ends with the namespace and the device with the last file open on it.
        let _ = unmount(&self.path());
        self.device.take();
        // The tmpfs of the image, if there is one.
        let _ = unmount(self.directory.path());
    }
}

/// A loop device for a file, and its path.
fn attach(image: &Path) -> io::Result<(File, PathBuf)> {
    let file = OpenOptions::new().read(true).write(true).open(image)?;
    let control = OpenOptions::new().read(true).write(true).open("/dev/loop-control")?;
    // Another process may take the free device first.
    for _ in 0..100 {
        // SAFETY: the request takes no argument.
        let free = unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE) };
        if free < 0 {
            return Err(io::Error::last_os_error());
        }
        let path = PathBuf::from(format!("/dev/loop{free}"));
        let device = OpenOptions::new().read(true).write(true).open(&path)?;
        // `struct loop_config`: descriptor, block size, `struct loop_info64` with the flags at its offset 52, reserved
        // words.
        let mut config = [0u32; 76];
        config[0] = file.as_raw_fd() as u32;
        config[(8 + 52) / 4] = LO_FLAGS_AUTOCLEAR;
        // SAFETY: the request reads a `struct loop_config` of 304 bytes, which `config` is; it outlives the call.
        match check(unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE, config.as_ptr()) }) {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {}
            result => return result.map(|()| (device, path)),
        }
    }
    Err(io::Error::other("no free loop device"))
}
/// A tmpfs of limited size.
pub struct Tmpfs {
    directory: tempfile::TempDir,
}

impl Tmpfs {
    /// Mounts a tmpfs of `bytes`.
    pub fn new(bytes: u64) -> Self {
        let directory = tempfile::tempdir().unwrap();
        mount(Path::new("none"), directory.path(), "tmpfs", &format!("size={bytes}")).unwrap();
        Self { directory }
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = unmount(self.directory.path());
    }
}
