//! A FUSE mount that passes requests for names and attributes on to a directory, so that a comparison shows what FUSE
//! itself costs. Threads of the session. It has no content: only empty files can be made.
//!
//! An inode has the number of the inode below it, and is known by its parent and name between the lookup and the forget
//! of the kernel. The table's mutex is held for no system call except those of `rename`.

use alluvium_bench::engine::Result;
use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, MountOption, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyOpen, Request, Session,
};
use skipfs::fuse::MountOptions;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

const GENERATION: Generation = Generation(0);

/// Mounts a directory at another one, with the options of SkipFS's mounts.
pub fn mount(below: &Path, mount_point: &Path) -> Result<BackgroundSession> {
    let options = MountOptions::default();
    let mut config = Config::default();
    config.mount_options =
        vec![MountOption::FSName("passthrough".into()), MountOption::DefaultPermissions, MountOption::NoAtime];
    config.n_threads = Some(options.threads);
    config.clone_fd = true;
    let timeout = options.timeout;
    let filesystem = Passthrough { below: below.to_owned(), timeout, state: Mutex::default() };
    Ok(Session::new(filesystem, mount_point, &config)?.spawn()?)
}

struct Passthrough {
    below: PathBuf,
    /// How long the kernel keeps entries and attributes.
    timeout: Duration,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    nodes: HashMap<u64, Node>,
    listings: HashMap<u64, Vec<(u64, FileType, OsString)>>,
    last_listing: u64,
}

/// A name that the kernel knows.
struct Node {
    parent: u64,
    name: OsString,
    lookups: u64,
}

impl Passthrough {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The path below of an inode.
    fn path(&self, ino: INodeNo) -> PathBuf {
        let (state, mut ino, mut names) = (self.state(), ino.0, Vec::new());
        while let Some(node) = state.nodes.get(&ino) {
            names.push(&node.name);
            ino = node.parent;
        }
        names.iter().rev().fold(self.below.clone(), |path, name| path.join(name))
    }

    /// The attributes of a name, with a lookup.
    fn find(&self, parent: INodeNo, name: &OsStr) -> io::Result<FileAttr> {
        let found = attributes(&fs::symlink_metadata(self.path(parent).join(name))?);
        let mut state = self.state();
        let node = Node { parent: parent.0, name: name.to_owned(), lookups: 0 };
        state.nodes.entry(found.ino.0).or_insert(node).lookups += 1;
        Ok(found)
    }

    fn reply_entry(&self, found: io::Result<FileAttr>, reply: ReplyEntry) {
        match found {
            Ok(found) => reply.entry(&self.timeout, &found, GENERATION),
            Err(error) => reply.error(errno(&error)),
        }
    }
}

fn errno(error: &io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_i32)
}

fn reply_done(done: io::Result<()>, reply: ReplyEmpty) {
    match done {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(errno(&error)),
    }
}

fn attributes(of: &Metadata) -> FileAttr {
    FileAttr {
        ino: INodeNo(of.ino()),
        size: of.len(),
        blocks: of.blocks(),
        atime: of.accessed().unwrap_or(UNIX_EPOCH),
        mtime: of.modified().unwrap_or(UNIX_EPOCH),
        ctime: of.modified().unwrap_or(UNIX_EPOCH),
        crtime: UNIX_EPOCH,
        kind: FileType::from_std(of.file_type()).unwrap_or(FileType::RegularFile),
        perm: (of.mode() & 0o7777) as u16,
        nlink: of.nlink() as u32,
        uid: of.uid(),
        gid: of.gid(),
        rdev: 0,
        blksize: of.blksize() as u32,
        flags: 0,
    }
}

impl Filesystem for Passthrough {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // A kernel without it works, too.
        let _ = config.add_capabilities(InitFlags::FUSE_PARALLEL_DIROPS);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.reply_entry(self.find(parent, name), reply);
    }

    fn forget(&self, _: &Request, ino: INodeNo, lookups: u64) {
        let mut state = self.state();
        if let Some(node) = state.nodes.get_mut(&ino.0) {
            node.lookups = node.lookups.saturating_sub(lookups);
            if node.lookups == 0 {
                state.nodes.remove(&ino.0);
            }
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match fs::symlink_metadata(self.path(ino)) {
            Ok(found) => {
                let found = FileAttr { ino, ..attributes(&found) };
                reply.attr(&self.timeout, &found);
            }
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn mkdir(&self, _: &Request, parent: INodeNo, name: &OsStr, _: u32, _: u32, reply: ReplyEntry) {
        let made = fs::create_dir(self.path(parent).join(name));
        self.reply_entry(made.and_then(|()| self.find(parent, name)), reply);
    }

    fn create(&self, _: &Request, parent: INodeNo, name: &OsStr, _: u32, _: u32, _: i32, reply: ReplyCreate) {
        let made = File::create(self.path(parent).join(name));
        match made.and_then(|_| self.find(parent, name)) {
            Ok(found) => {
                reply.created(&self.timeout, &found, GENERATION, FileHandle(0), FopenFlags::FOPEN_NOFLUSH);
            }
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        reply_done(fs::remove_file(self.path(parent).join(name)), reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        reply_done(fs::remove_dir(self.path(parent).join(name)), reply);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        _: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let (from, to) = (self.path(parent).join(name), self.path(new_parent).join(new_name));
        let mut state = self.state();
        let renamed = fs::symlink_metadata(&from).and_then(|found| fs::rename(&from, &to).map(|()| found.ino()));
        if let Ok(ino) = &renamed
            && let Some(node) = state.nodes.get_mut(ino)
        {
            (node.parent, node.name) = (new_parent.0, new_name.to_owned());
        }
        drop(state);
        reply_done(renamed.map(|_| ()), reply);
    }

    /// Reads all names, for `readdir`.
    fn opendir(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let entries = fs::read_dir(self.path(ino)).and_then(|entries| {
            let entry = |entry: io::Result<fs::DirEntry>| {
                let entry = entry?;
                let kind = FileType::from_std(entry.file_type()?).unwrap_or(FileType::RegularFile);
                Ok((entry.ino(), kind, entry.file_name()))
            };
            entries.map(entry).collect::<io::Result<Vec<_>>>()
        });
        match entries {
            Ok(entries) => {
                let mut state = self.state();
                state.last_listing += 1;
                let number = state.last_listing;
                state.listings.insert(number, entries);
                drop(state);
                reply.opened(FileHandle(number), FopenFlags::empty());
            }
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn readdir(&self, _: &Request, _: INodeNo, handle: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let state = self.state();
        let entries = state.listings.get(&handle.0).map_or(&[][..], Vec::as_slice);
        for (at, (ino, kind, name)) in entries.iter().enumerate().skip(offset as usize) {
            if reply.add(INodeNo(*ino), at as u64 + 1, *kind, name) {
                break;
            }
        }
        drop(state);
        reply.ok();
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.state().listings.remove(&handle.0);
        reply.ok();
    }
}
