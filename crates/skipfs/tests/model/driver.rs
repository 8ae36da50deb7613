//! Executes requests on the file system by path, with lookups and forgets as the kernel makes them.

use super::node::{Dump, Node};
use super::request::{File, Request};
use super::tree::bytes;
use crate::support::CALLER;
use skipfs::store::Store;
use skipfs::{FileKind, FsResult, ROOT, SetAttributes, SkipFs, Visit, WriteOptions};

/// Reads the whole tree.
pub fn dump<S: Store>(fs: &SkipFs<S>) -> Dump {
    let mut dump = Dump::new();
    dump_inode(fs, ROOT, String::new(), &mut dump);
    dump
}

fn dump_inode<S: Store>(fs: &SkipFs<S>, ino: u64, path: String, dump: &mut Dump) {
    let attributes = fs.getattr(ino).unwrap();
    let content = match attributes.kind {
        FileKind::Directory => {
            for (name, child) in list(fs, ino).unwrap() {
                dump_inode(fs, child, format!("{path}/{name}"), dump);
                fs.forget(child, 1);
            }
            Vec::new()
        }
        FileKind::File => fs.read(ino, 0, attributes.size as usize).unwrap(),
        FileKind::Symlink => fs.readlink(ino).unwrap(),
        _ => Vec::new(),
    };
    let names = String::from_utf8(fs.listxattr(ino).unwrap()).unwrap();
    let value = |name: &str| (name.to_owned(), fs.getxattr(ino, name.as_bytes()).unwrap());
    let node = Node {
        kind: attributes.kind,
        permissions: attributes.permissions,
        uid: attributes.uid,
        gid: attributes.gid,
        nlink: attributes.nlink,
        content,
        attributes: names.split_terminator('\0').map(value).collect(),
    };
    dump.insert(path, node);
}

/// The names of a directory and their inodes, looked up.
fn list<S: Store>(fs: &SkipFs<S>, ino: u64) -> FsResult<Vec<(String, u64)>> {
    let mut handle = fs.opendir(ino)?;
    let (mut found, mut offset) = (Vec::new(), 0);
    loop {
        // Three entries at a time, so that handles go on at offsets.
        let mut space = 3;
        let before = offset;
        fs.readdirplus(&mut handle, offset, &mut |entry, attributes| {
            if space == 0 {
                return Visit::Full;
            }
            assert_eq!((entry.ino, entry.kind), (attributes.ino, attributes.kind));
            space -= 1;
            offset = entry.next_offset;
            if entry.name != b"." && entry.name != b".." {
                found.push((String::from_utf8_lossy(entry.name).into_owned(), entry.ino));
            }
            Visit::Taken
        })?;
        if offset == before {
            return Ok(found);
        }
    }
}

/// A file system and the files that are open.
pub struct Mounted<S: Store> {
    pub fs: SkipFs<S>,
    open: Vec<u64>,
}

type Outcome<T> = Result<T, i32>;

fn errno<T>(result: FsResult<T>) -> Outcome<T> {
    result.map_err(|error| error.errno())
}

impl<S: Store> Mounted<S> {
    pub fn new(fs: SkipFs<S>) -> Self {
        Self { fs, open: Vec::new() }
    }

    pub fn release_all(&mut self) {
        for ino in std::mem::take(&mut self.open) {
            self.fs.release(ino).unwrap();
        }
    }

    /// Looks up a path, calls `with` with its inode, and forgets all of the path.
    fn at<T>(&self, path: &[&'static str], with: impl FnOnce(u64) -> Outcome<T>) -> Outcome<T> {
        self.below(ROOT, path, Box::new(with))
    }

    fn below<T>(&self, ino: u64, path: &[&'static str], with: Box<dyn FnOnce(u64) -> Outcome<T> + '_>) -> Outcome<T> {
        let Some((name, rest)) = path.split_first() else { return with(ino) };
        let child = errno(self.fs.lookup(ino, name.as_bytes()))?.ino;
        let result = self.below(child, rest, with);
        self.fs.forget(child, 1);
        result
    }

    /// The directory of a path, and the name in it.
    fn place<T>(&self, path: &[&'static str], with: impl FnOnce(u64, &[u8]) -> FsResult<T>) -> Outcome<T> {
        let (name, parents) = path.split_last().unwrap();
        self.at(parents, |parent| errno(with(parent, name.as_bytes())))
    }

    /// Executes a request on the name of a path while its inode is looked up, as the kernel does, or without that.
    fn looked_up<T>(&self, path: &[&'static str], request: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
        if self.open.len().is_multiple_of(2) {
            return request();
        }
        let found = self.place(path, |parent, name| self.fs.lookup(parent, name));
        let done = request();
        found.iter().for_each(|found| self.fs.forget(found.ino, 1));
        done
    }

    fn file<T>(&self, file: &File, with: impl FnOnce(u64) -> FsResult<T>) -> Outcome<T> {
        match file {
            File::At(path) => self.at(path, |ino| errno(with(ino))),
            File::Open(_) if self.open.is_empty() => Err(libc::EBADF),
            File::Open(at) => errno(with(self.open[at % self.open.len()])),
        }
    }

    fn set(&self, file: &File, set: SetAttributes) -> Outcome<String> {
        self.file(file, |ino| self.fs.setattr(ino, &set)).map(|_| String::new())
    }

    /// Executes a request. The result is what it returns, as text.
    pub fn apply(&mut self, request: &Request) -> Outcome<String> {
        let fs = &self.fs;
        let done = |()| String::new();
        let made = |attributes: skipfs::Attributes| {
            fs.forget(attributes.ino, 1);
            String::new()
        };
        match request {
            Request::Create(path, permissions) => {
                let created = self.place(path, |parent, name| fs.create(parent, name, *permissions, CALLER))?;
                fs.forget(created.ino, 1);
                self.open.push(created.ino);
                Ok(String::new())
            }
            Request::Mkdir(path, permissions) => {
                self.place(path, |parent, name| fs.mkdir(parent, name, *permissions, CALLER)).map(made)
            }
            Request::Mknod(path, mode) => {
                self.place(path, |parent, name| fs.mknod(parent, name, *mode, 5, CALLER)).map(made)
            }
            Request::Symlink(path, target) => {
                self.place(path, |parent, name| fs.symlink(parent, name, target, CALLER)).map(made)
            }
            Request::Readlink(path) => self.at(path, |ino| errno(fs.readlink(ino))).map(|target| format!("{target:?}")),
            Request::Link(from, to) => self
                .at(from, |ino| {
                    // A lookup more than the path has, which `link` adds.
                    self.place(to, |parent, name| fs.link(ino, parent, name))
                })
                .map(made),
            Request::Unlink(path) => {
                self.looked_up(path, || self.place(path, |parent, name| fs.unlink(parent, name))).map(done)
            }
            Request::Rmdir(path) => self.place(path, |parent, name| fs.rmdir(parent, name)).map(done),
            Request::Rename(from, to, mode) => {
                let (name, parents) = from.split_last().unwrap();
                let rename = |parent| {
                    self.looked_up(to, || {
                        self.place(to, |new_parent, new_name| {
                            fs.rename(parent, name.as_bytes(), new_parent, new_name, *mode)
                        })
                    })
                };
                self.at(parents, |parent| {
                    if fs.getattr(parent).is_ok_and(|found| !found.is_directory()) {
                        return Err(libc::ENOTDIR);
                    }
                    rename(parent)
                })
                .map(done)
            }
            Request::Open(path, truncates) => {
                // Forgotten while it is open.
                let ino = self.at(path, |ino| errno(fs.open_file(ino, *truncates)).map(|()| ino))?;
                self.open.push(ino);
                Ok(String::new())
            }
            Request::Release(at) => {
                if !self.open.is_empty() {
                    let ino = self.open.remove(at % self.open.len());
                    errno(self.fs.release(ino))?;
                }
                Ok(String::new())
            }
            Request::Write(file, offset, length, first, append) => {
                let (data, options) =
                    (bytes(*first, *length), WriteOptions { append: *append, drop_privileges: false });
                self.file(file, |ino| fs.write(ino, *offset, &data, options)).map(|count| count.to_string())
            }
            Request::Read(file, offset, length) => {
                self.file(file, |ino| fs.read(ino, *offset, *length)).map(|bytes| format!("{bytes:?}"))
            }
            Request::Truncate(file, size) => {
                self.set(file, SetAttributes { size: Some(*size), ..SetAttributes::default() })
            }
            Request::Allocate(file, offset, length, mode) => {
                self.file(file, |ino| fs.fallocate(ino, *offset, *length, *mode)).map(done)
            }
            Request::Permissions(path, permissions) => {
                let set = SetAttributes { permissions: Some(*permissions), ..SetAttributes::default() };
                self.set(&File::At(path.clone()), set)
            }
            Request::Owner(path, uid, gid) => {
                let set = SetAttributes { uid: *uid, gid: *gid, ..SetAttributes::default() };
                self.set(&File::At(path.clone()), set)
            }
            Request::SetAttribute(path, name, length, mode) => {
                let value = vec![b'v'; *length];
                self.at(path, |ino| errno(fs.setxattr(ino, name.as_bytes(), &value, *mode))).map(done)
            }
            Request::GetAttribute(path, name) => {
                self.at(path, |ino| errno(fs.getxattr(ino, name.as_bytes()))).map(|value| format!("{value:?}"))
            }
            Request::RemoveAttribute(path, name) => {
                self.at(path, |ino| errno(fs.removexattr(ino, name.as_bytes()))).map(done)
            }
            Request::List(path) => {
                let found = self.at(path, |ino| errno(list(fs, ino)))?;
                found.iter().for_each(|(_, ino)| fs.forget(*ino, 1));
                Ok(found.into_iter().map(|(name, _)| name).collect::<Vec<_>>().join(" "))
            }
            Request::Fsync => errno(fs.fsync()).map(done),
            Request::Remount => Ok(String::new()),
        }
    }
}
