//! `Adapter`: the kernel's requests, each passed to the request of `SkipFs` of the same name. Threads of the session.

use super::convert::{attributes, errno, kind, nothing, requested, set_time};
use super::handles::Handles;
use super::options::MountOptions;
use crate::error::FsResult;
use crate::format::Attributes;
use crate::fs::{Caller, FilePlace, RenameMode, SeekTo, SetAttributes, SetMode, SkipFs, Visit, WriteOptions};
use crate::store::Store;
use fuser::{
    BsdFileFlags, CopyFileRangeFlags, Errno, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, Notifier, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request,
    TimeOrNow, WriteFlags,
};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

/// Numbers of inodes are never used again, so all have the same generation.
const GENERATION: Generation = Generation(0);
/// Requests that the kernel may have in flight for reading ahead and writing back.
const BACKGROUND_REQUESTS: u16 = 64;

pub(super) struct Adapter<S> {
    fs: Arc<SkipFs<S>>,
    handles: Handles,
    options: MountOptions,
    /// Set before the first request.
    notifier: Arc<OnceLock<Notifier>>,
}

impl<S: Store> Adapter<S> {
    pub(super) fn new(fs: Arc<SkipFs<S>>, options: MountOptions) -> Self {
        Self { fs, handles: Handles::default(), options, notifier: Arc::default() }
    }

    /// Where the session's notifier is to be put.
    pub(super) fn notifier(&self) -> Arc<OnceLock<Notifier>> {
        Arc::clone(&self.notifier)
    }

    /// Executes a request after which the kernel keeps the permissions that it knows. If it takes some away, the kernel
    /// is told before the answer. *Otherwise:* a set-user-ID bit that a write took away stays visible until the kernel's
    /// attributes expire.
    fn with_permissions<T>(&self, ino: u64, request: impl FnOnce() -> FsResult<T>) -> FsResult<T> {
        let permissions = || self.fs.getattr(ino).map(|found| found.permissions).ok();
        let before = permissions().filter(|before| before & (libc::S_ISUID | libc::S_ISGID) != 0);
        let done = request();
        if before.is_some()
            && permissions() != before
            && let Some(notifier) = self.notifier.get()
        {
            // A negative offset: attributes alone. An inode that the kernel does not have any more is no error.
            let _ = notifier.inval_inode(INodeNo(ino), -1, 0);
        }
        done
    }

    fn reply_entry(&self, made: FsResult<Attributes>, reply: ReplyEntry) {
        match made {
            Ok(made) => reply.entry(&self.options.timeout, &attributes(&made), GENERATION),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn reply_attributes(&self, found: FsResult<Attributes>, reply: ReplyAttr) {
        match found {
            Ok(found) => reply.attr(&self.options.timeout, &attributes(&found)),
            Err(error) => reply.error(errno(&error)),
        }
    }

    /// Makes and opens a file, or opens the one that is there.
    fn create_or_open(&self, parent: u64, name: &[u8], mode: u32, flags: i32, caller: Caller) -> FsResult<Attributes> {
        match self.fs.create(parent, name, mode, caller) {
            Err(error) if error.errno() == libc::EEXIST && flags & libc::O_EXCL == 0 => {
                let found = self.fs.lookup(parent, name)?;
                let opened = self.fs.open_file(found.ino, flags & libc::O_TRUNC != 0);
                let opened = opened.and_then(|()| self.fs.getattr(found.ino));
                if opened.is_err() {
                    self.fs.forget(found.ino, 1);
                }
                opened
            }
            made => made,
        }
    }
}

fn caller(request: &Request) -> Caller {
    Caller { uid: request.uid(), gid: request.gid() }
}

fn reply_done(done: FsResult<()>, reply: ReplyEmpty) {
    match done {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(errno(&error)),
    }
}

fn reply_data(data: FsResult<Vec<u8>>, reply: ReplyData) {
    match data {
        Ok(data) => reply.data(&data),
        Err(error) => reply.error(errno(&error)),
    }
}

/// The kernel asks for the size first.
fn reply_attribute(value: FsResult<Vec<u8>>, size: u32, reply: ReplyXattr) {
    match value {
        Ok(value) if size == 0 => reply.size(value.len() as u32),
        Ok(value) if value.len() > size as usize => reply.error(Errno::ERANGE),
        Ok(value) => reply.data(&value),
        Err(error) => reply.error(errno(&error)),
    }
}

/// The kernel's page cache stays valid between two opens, and nothing is to be done when a file is closed.
fn file_flags() -> FopenFlags {
    FopenFlags::FOPEN_KEEP_CACHE | FopenFlags::FOPEN_NOFLUSH
}

impl<S: Store + 'static> Filesystem for Adapter<S> {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        let wanted = [
            (InitFlags::FUSE_ATOMIC_O_TRUNC, true),
            (InitFlags::FUSE_PARALLEL_DIROPS, true),
            (InitFlags::FUSE_DO_READDIRPLUS, true),
            (InitFlags::FUSE_READDIRPLUS_AUTO, true),
            (InitFlags::FUSE_CACHE_SYMLINKS, true),
            (InitFlags::FUSE_ASYNC_DIO, true),
            // *Otherwise:* the kernel asks before each write whether the file has `security.capability`.
            (InitFlags::FUSE_HANDLE_KILLPRIV_V2, true),
            (InitFlags::FUSE_WRITEBACK_CACHE, self.options.write_back_cache),
        ];
        for (flag, is_wanted) in wanted {
            // A kernel that lacks one works without it.
            if is_wanted {
                let _ = config.add_capabilities(flag);
            }
        }
        // The nearest value that is allowed.
        if let Err(nearest) = config.set_max_write(self.options.write_bytes_max) {
            let _ = config.set_max_write(nearest);
        }
        let _ = config.set_max_background(BACKGROUND_REQUESTS);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.fs.lookup(parent.0, name.as_bytes()) {
            // The kernel remembers that there is no such name.
            Err(error) if error.errno() == libc::ENOENT => {
                reply.entry(&self.options.timeout, &nothing(), GENERATION);
            }
            found => self.reply_entry(found, reply),
        }
    }

    fn forget(&self, _: &Request, ino: INodeNo, lookups: u64) {
        self.fs.forget(ino.0, lookups);
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        self.reply_attributes(self.fs.getattr(ino.0), reply);
    }

    fn setattr(
        &self,
        request: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        ctime: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let set = SetAttributes {
            permissions: mode,
            uid,
            gid,
            size,
            atime: atime.map(set_time),
            mtime: mtime.map(set_time),
            ctime: ctime.map(requested),
            // The kernel's flag for it is not passed on by `fuser`.
            drop_privileges: request.uid() != 0,
        };
        self.reply_attributes(self.fs.setattr(ino.0, &set), reply);
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        reply_data(self.fs.readlink(ino.0), reply);
    }

    fn mknod(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, rdev: u32, reply: ReplyEntry) {
        self.reply_entry(self.fs.mknod(parent.0, name.as_bytes(), mode, rdev, caller(request)), reply);
    }

    fn mkdir(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, reply: ReplyEntry) {
        self.reply_entry(self.fs.mkdir(parent.0, name.as_bytes(), mode, caller(request)), reply);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        reply_done(self.fs.unlink(parent.0, name.as_bytes()), reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        reply_done(self.fs.rmdir(parent.0, name.as_bytes()), reply);
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let target = target.as_os_str().as_bytes();
        self.reply_entry(self.fs.symlink(parent.0, name.as_bytes(), target, caller(request)), reply);
    }

    fn rename(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let mode = match flags.bits() {
            0 => RenameMode::Replace,
            bits if bits == RenameFlags::RENAME_NOREPLACE.bits() => RenameMode::NoReplace,
            bits if bits == RenameFlags::RENAME_EXCHANGE.bits() => RenameMode::Exchange,
            bits if bits == RenameFlags::RENAME_WHITEOUT.bits() => RenameMode::Whiteout(caller(request)),
            _ => return reply.error(Errno::EINVAL),
        };
        reply_done(self.fs.rename(parent.0, name.as_bytes(), new_parent.0, new_name.as_bytes(), mode), reply);
    }

    fn link(&self, _: &Request, ino: INodeNo, new_parent: INodeNo, new_name: &OsStr, reply: ReplyEntry) {
        self.reply_entry(self.fs.link(ino.0, new_parent.0, new_name.as_bytes()), reply);
    }

    fn open(&self, _: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let opened = match flags.0 & libc::O_TRUNC {
            0 => self.fs.open_file(ino.0, false),
            _ => self.with_permissions(ino.0, || self.fs.open_file(ino.0, true)),
        };
        match opened {
            Ok(()) => reply.opened(FileHandle(0), file_flags()),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        reply_data(self.fs.read(ino.0, offset, size as usize), reply);
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        // With `O_APPEND` the offset is the end: the kernel knows the size, because only it changes the file.
        let drop_privileges = write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID);
        let options = WriteOptions { append: false, drop_privileges };
        let write = || self.fs.write(ino.0, offset, data, options);
        match if drop_privileges { self.with_permissions(ino.0, write) } else { write() } {
            Ok(count) => reply.written(count as u32),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn release(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        reply_done(self.fs.release(ino.0), reply);
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply_done(self.fs.fsync(), reply);
    }

    fn opendir(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.fs.opendir(ino.0) {
            Ok(handle) => reply.opened(FileHandle(self.handles.add(handle)), FopenFlags::empty()),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn readdir(&self, _: &Request, _: INodeNo, handle: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let read = self.handles.get(handle.0).and_then(|handle| {
            self.fs.readdir(&mut handle.lock(), offset, &mut |entry| {
                let name = OsStr::from_bytes(entry.name);
                visited(reply.add(INodeNo(entry.ino), entry.next_offset, kind(entry.kind), name))
            })
        });
        match read {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn readdirplus(&self, _: &Request, _: INodeNo, handle: FileHandle, offset: u64, mut reply: ReplyDirectoryPlus) {
        let timeout = &self.options.timeout;
        let read = self.handles.get(handle.0).and_then(|handle| {
            self.fs.readdirplus(&mut handle.lock(), offset, &mut |entry, found| {
                let (ino, name) = (INodeNo(entry.ino), OsStr::from_bytes(entry.name));
                visited(reply.add(ino, entry.next_offset, name, timeout, &attributes(found), GENERATION))
            })
        });
        match read {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.handles.remove(handle.0);
        reply.ok();
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply_done(self.fs.fsync(), reply);
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        match self.fs.statfs() {
            Ok(found) => reply.statfs(
                found.blocks,
                found.blocks_free,
                found.blocks_free,
                found.files,
                found.files_free,
                found.block_bytes as u32,
                found.name_bytes_max,
                found.block_bytes as u32,
            ),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn setxattr(&self, _: &Request, ino: INodeNo, name: &OsStr, value: &[u8], flags: i32, _: u32, reply: ReplyEmpty) {
        let mode = match flags {
            0 => SetMode::Any,
            libc::XATTR_CREATE => SetMode::Create,
            libc::XATTR_REPLACE => SetMode::Replace,
            _ => return reply.error(Errno::EINVAL),
        };
        reply_done(self.fs.setxattr(ino.0, name.as_bytes(), value, mode), reply);
    }

    fn getxattr(&self, _: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        reply_attribute(self.fs.getxattr(ino.0, name.as_bytes()), size, reply);
    }

    fn listxattr(&self, _: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        reply_attribute(self.fs.listxattr(ino.0), size, reply);
    }

    fn removexattr(&self, _: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        reply_done(self.fs.removexattr(ino.0, name.as_bytes()), reply);
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        match self.create_or_open(parent.0, name.as_bytes(), mode, flags, caller(request)) {
            Ok(made) => {
                let timeout = &self.options.timeout;
                reply.created(timeout, &attributes(&made), GENERATION, FileHandle(0), file_flags());
            }
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn fallocate(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let done = self.with_permissions(ino.0, || self.fs.fallocate(ino.0, offset, length, mode));
        reply_done(done, reply);
    }

    fn lseek(&self, _: &Request, ino: INodeNo, _: FileHandle, offset: i64, whence: i32, reply: ReplyLseek) {
        let to = match whence {
            // The kernel does not pass on first what it has collected. After this error it takes the whole file for
            // content.
            _ if self.options.write_back_cache => return reply.error(Errno::ENOSYS),
            libc::SEEK_DATA => SeekTo::Data,
            libc::SEEK_HOLE => SeekTo::Hole,
            _ => return reply.error(Errno::EINVAL),
        };
        let Ok(offset) = u64::try_from(offset) else { return reply.error(Errno::ENXIO) };
        match self.fs.seek(ino.0, offset, to) {
            Ok(place) => reply.offset(place as i64),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn copy_file_range(
        &self,
        _: &Request,
        from: INodeNo,
        _: FileHandle,
        from_offset: u64,
        to: INodeNo,
        _: FileHandle,
        to_offset: u64,
        length: u64,
        flags: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        if !flags.is_empty() {
            return reply.error(Errno::EINVAL);
        }
        let from = FilePlace { ino: from.0, offset: from_offset };
        let to = FilePlace { ino: to.0, offset: to_offset };
        match self.with_permissions(to.ino, || self.fs.copy_file_range(from, to, length)) {
            Ok(count) => reply.written(count as u32),
            Err(error) => reply.error(errno(&error)),
        }
    }
}

fn visited(is_full: bool) -> Visit {
    if is_full { Visit::Full } else { Visit::Taken }
}
