//! The model: a tree in memory, as plain as possible.

use super::node::{Dump, Node};
use super::request::{File, Path, Request};
use skipfs::{FileKind, RenameMode, SetMode};
use std::collections::BTreeMap;

type Outcome<T> = Result<T, i32>;

#[derive(Clone, Debug)]
struct Inode {
    kind: FileKind,
    permissions: u32,
    uid: u32,
    gid: u32,
    nlink: u32,
    content: Vec<u8>,
    attributes: BTreeMap<&'static str, Vec<u8>>,
    entries: BTreeMap<&'static str, usize>,
}

/// The tree. Inode 0 is the root.
#[derive(Clone, Debug)]
pub struct Tree {
    inodes: Vec<Inode>,
    open: Vec<usize>,
}

impl Inode {
    fn is_directory(&self) -> bool {
        self.kind == FileKind::Directory
    }

    fn drop_privileges(&mut self) {
        self.permissions &= !libc::S_ISUID;
        if self.permissions & libc::S_IXGRP != 0 {
            self.permissions &= !libc::S_ISGID;
        }
    }
}

/// The bytes that a write writes.
pub fn bytes(first: u8, length: usize) -> Vec<u8> {
    (0..length).map(|at| first.wrapping_add((at / 7) as u8)).collect()
}

impl Tree {
    pub fn new() -> Self {
        let root = Inode {
            kind: FileKind::Directory,
            permissions: 0o755,
            uid: 7,
            gid: 8,
            nlink: 2,
            content: Vec::new(),
            attributes: BTreeMap::new(),
            entries: BTreeMap::new(),
        };
        Self { inodes: vec![root], open: Vec::new() }
    }

    fn at(&self, path: &[&'static str]) -> Outcome<usize> {
        path.iter().try_fold(0, |directory, name| {
            let directory = &self.inodes[directory];
            if !directory.is_directory() {
                return Err(libc::ENOTDIR);
            }
            directory.entries.get(name).copied().ok_or(libc::ENOENT)
        })
    }

    /// The directory and the name of a path, and the inode there.
    fn place(&self, path: &Path) -> Outcome<(usize, &'static str, Option<usize>)> {
        let (name, parents) = path.split_last().unwrap();
        let parent = self.at(parents)?;
        if !self.inodes[parent].is_directory() {
            return Err(libc::ENOTDIR);
        }
        Ok((parent, name, self.inodes[parent].entries.get(name).copied()))
    }

    fn inode(&self, file: &File) -> Outcome<usize> {
        match file {
            File::At(path) => self.at(path),
            File::Open(_) if self.open.is_empty() => Err(libc::EBADF),
            File::Open(at) => Ok(self.open[at % self.open.len()]),
        }
    }

    fn file(&self, file: &File) -> Outcome<usize> {
        let found = self.inode(file)?;
        match self.inodes[found].kind {
            FileKind::File => Ok(found),
            FileKind::Directory => Err(libc::EISDIR),
            _ => Err(libc::EINVAL),
        }
    }

    fn add(&mut self, path: &Path, kind: FileKind, permissions: u32, content: Vec<u8>) -> Outcome<usize> {
        let (parent, name, existing) = self.place(path)?;
        if existing.is_some() {
            return Err(libc::EEXIST);
        }
        let of_parent = &self.inodes[parent];
        let (mut gid, mut permissions) = (8, permissions);
        let is_directory = kind == FileKind::Directory;
        if of_parent.permissions & libc::S_ISGID != 0 {
            gid = of_parent.gid;
            permissions |= if is_directory { libc::S_ISGID } else { 0 };
        }
        let nlink = if is_directory { 2 } else { 1 };
        let (attributes, entries) = (BTreeMap::new(), BTreeMap::new());
        self.inodes.push(Inode { kind, permissions, uid: 7, gid, nlink, content, attributes, entries });
        let inode = self.inodes.len() - 1;
        self.inodes[parent].entries.insert(name, inode);
        self.inodes[parent].nlink += u32::from(is_directory);
        Ok(inode)
    }

    fn is_below(&self, place: usize, directory: usize) -> bool {
        place == directory || self.inodes[directory].entries.values().any(|&child| self.is_below(place, child))
    }

    fn rename(&mut self, from: &Path, to: &Path, mode: RenameMode) -> Outcome<()> {
        let (parent, name, source) = self.place(from)?;
        let (new_parent, new_name, target) = self.place(to)?;
        let source = source.ok_or(libc::ENOENT)?;
        match (mode, target) {
            (RenameMode::NoReplace, Some(_)) => return Err(libc::EEXIST),
            (RenameMode::Exchange, None) => return Err(libc::ENOENT),
            _ if target == Some(source) => return Ok(()),
            _ => {}
        }
        if self.is_below(new_parent, source) {
            return Err(libc::EINVAL);
        }
        let is_directory = |tree: &Self, inode: usize| tree.inodes[inode].is_directory();
        if let (RenameMode::Exchange, Some(target)) = (mode, target) {
            if self.is_below(parent, target) {
                return Err(libc::EINVAL);
            }
            self.inodes[parent].entries.insert(name, target);
            let count = u32::from(is_directory(self, target));
            self.inodes[new_parent].nlink -= count;
            self.inodes[parent].nlink += count;
        } else {
            if let Some(target) = target {
                match (is_directory(self, source), is_directory(self, target)) {
                    (false, true) => return Err(libc::EISDIR),
                    (true, false) => return Err(libc::ENOTDIR),
                    (true, true) if !self.inodes[target].entries.is_empty() => return Err(libc::ENOTEMPTY),
                    (true, true) => self.inodes[new_parent].nlink -= 1,
                    (false, false) => self.inodes[target].nlink -= 1,
                }
            }
            self.inodes[parent].entries.remove(name);
            if let RenameMode::Whiteout(_) = mode {
                self.add(from, FileKind::CharacterDevice, 0, Vec::new())?;
            }
        }
        self.inodes[new_parent].entries.insert(new_name, source);
        let count = u32::from(is_directory(self, source));
        self.inodes[parent].nlink -= count;
        self.inodes[new_parent].nlink += count;
        Ok(())
    }

    fn allocate(&mut self, file: &File, offset: u64, length: u64, mode: i32) -> Outcome<()> {
        self.inode(file)?;
        let keeps = mode & libc::FALLOC_FL_KEEP_SIZE != 0;
        let what = mode & !libc::FALLOC_FL_KEEP_SIZE;
        if what != 0 && what != libc::FALLOC_FL_ZERO_RANGE && !(what == libc::FALLOC_FL_PUNCH_HOLE && keeps) {
            return Err(libc::EOPNOTSUPP);
        }
        if length == 0 {
            return Err(libc::EINVAL);
        }
        let inode = self.file(file)?;
        self.inodes[inode].drop_privileges();
        let content = &mut self.inodes[inode].content;
        let (start, end) = (offset as usize, (offset + length) as usize);
        if !keeps && end > content.len() {
            content.resize(end, 0);
        }
        if what != 0 && start < content.len() {
            let end = end.min(content.len());
            content[start..end].fill(0);
        }
        Ok(())
    }

    fn write(&mut self, file: &File, offset: u64, data: &[u8], appends: bool) -> Outcome<usize> {
        let inode = self.file(file)?;
        let content = &mut self.inodes[inode].content;
        if data.is_empty() {
            return Ok(0);
        }
        let start = if appends { content.len() } else { offset as usize };
        if content.len() < start + data.len() {
            content.resize(start + data.len(), 0);
        }
        content[start..start + data.len()].copy_from_slice(data);
        Ok(data.len())
    }

    fn set_attribute(&mut self, path: &Path, name: &'static str, length: usize, mode: SetMode) -> Outcome<()> {
        let inode = self.at(path)?;
        let attributes = &mut self.inodes[inode].attributes;
        match (mode, attributes.contains_key(name)) {
            _ if length > 65_536 => Err(libc::E2BIG),
            (SetMode::Create, true) => Err(libc::EEXIST),
            (SetMode::Replace, false) => Err(libc::ENODATA),
            _ => {
                attributes.insert(name, vec![b'v'; length]);
                Ok(())
            }
        }
    }

    pub fn release_all(&mut self) {
        self.open.clear();
    }

    /// Executes a request. The result is what it returns, as text.
    pub fn apply(&mut self, request: &Request) -> Outcome<String> {
        let done = |()| String::new();
        match request {
            Request::Create(path, permissions) => {
                let inode = self.add(path, FileKind::File, *permissions, Vec::new())?;
                self.open.push(inode);
                Ok(String::new())
            }
            Request::Mkdir(path, permissions) => {
                self.add(path, FileKind::Directory, *permissions, Vec::new()).map(|_| String::new())
            }
            Request::Mknod(path, mode) => {
                let kind = match *mode {
                    libc::S_IFIFO => FileKind::Fifo,
                    libc::S_IFSOCK => FileKind::Socket,
                    libc::S_IFCHR => FileKind::CharacterDevice,
                    libc::S_IFREG => FileKind::File,
                    _ => {
                        self.at(&path[..path.len() - 1])?;
                        return Err(libc::EINVAL);
                    }
                };
                self.add(path, kind, 0, Vec::new()).map(|_| String::new())
            }
            Request::Symlink(path, target) => {
                self.at(&path[..path.len() - 1])?;
                match target.len() {
                    0 => Err(libc::ENOENT),
                    4096.. => Err(libc::ENAMETOOLONG),
                    _ => self.add(path, FileKind::Symlink, 0o777, target.clone()).map(|_| String::new()),
                }
            }
            Request::Readlink(path) => {
                let inode = &self.inodes[self.at(path)?];
                let is_link = inode.kind == FileKind::Symlink;
                if is_link { Ok(format!("{:?}", inode.content)) } else { Err(libc::EINVAL) }
            }
            Request::Link(from, to) => {
                let inode = self.at(from)?;
                let (parent, name, existing) = self.place(to)?;
                if existing.is_some() {
                    return Err(libc::EEXIST);
                }
                if self.inodes[inode].is_directory() {
                    return Err(libc::EPERM);
                }
                self.inodes[inode].nlink += 1;
                self.inodes[parent].entries.insert(name, inode);
                Ok(String::new())
            }
            Request::Unlink(path) => {
                let (parent, name, inode) = self.place(path)?;
                let inode = inode.ok_or(libc::ENOENT)?;
                if self.inodes[inode].is_directory() {
                    return Err(libc::EISDIR);
                }
                self.inodes[inode].nlink -= 1;
                self.inodes[parent].entries.remove(name);
                Ok(String::new())
            }
            Request::Rmdir(path) => {
                let (parent, name, inode) = self.place(path)?;
                let inode = &self.inodes[inode.ok_or(libc::ENOENT)?];
                if !inode.is_directory() {
                    return Err(libc::ENOTDIR);
                }
                if !inode.entries.is_empty() {
                    return Err(libc::ENOTEMPTY);
                }
                self.inodes[parent].nlink -= 1;
                self.inodes[parent].entries.remove(name);
                Ok(String::new())
            }
            Request::Rename(from, to, mode) => self.rename(from, to, *mode).map(done),
            Request::Open(path, truncates) => {
                let inode = self.file(&File::At(path.clone()))?;
                if *truncates {
                    self.inodes[inode].content.clear();
                    self.inodes[inode].drop_privileges();
                }
                self.open.push(inode);
                Ok(String::new())
            }
            Request::Release(at) => {
                if !self.open.is_empty() {
                    self.open.remove(at % self.open.len());
                }
                Ok(String::new())
            }
            Request::Write(file, offset, length, first, appends) => {
                self.write(file, *offset, &bytes(*first, *length), *appends).map(|count| count.to_string())
            }
            Request::Read(file, offset, length) => {
                let content = &self.inodes[self.file(file)?].content;
                let start = content.len().min(*offset as usize);
                Ok(format!("{:?}", &content[start..content.len().min(start + length)]))
            }
            Request::Truncate(file, size) => {
                let inode = self.file(file)?;
                self.inodes[inode].content.resize(*size as usize, 0);
                Ok(String::new())
            }
            Request::Allocate(file, offset, length, mode) => self.allocate(file, *offset, *length, *mode).map(done),
            Request::Permissions(path, permissions) => {
                let inode = self.at(path)?;
                self.inodes[inode].permissions = *permissions;
                Ok(String::new())
            }
            Request::Owner(path, uid, gid) => {
                let inode = self.at(path)?;
                let inode = &mut self.inodes[inode];
                if (uid.is_some() || gid.is_some()) && inode.kind == FileKind::File {
                    inode.drop_privileges();
                }
                inode.uid = uid.unwrap_or(inode.uid);
                inode.gid = gid.unwrap_or(inode.gid);
                Ok(String::new())
            }
            Request::SetAttribute(path, name, length, mode) => self.set_attribute(path, name, *length, *mode).map(done),
            Request::GetAttribute(path, name) => {
                let value = self.inodes[self.at(path)?].attributes.get(name);
                value.map(|value| format!("{value:?}")).ok_or(libc::ENODATA)
            }
            Request::RemoveAttribute(path, name) => {
                let inode = self.at(path)?;
                self.inodes[inode].attributes.remove(name).map(|_| String::new()).ok_or(libc::ENODATA)
            }
            Request::List(path) => {
                let inode = &self.inodes[self.at(path)?];
                if !inode.is_directory() {
                    return Err(libc::ENOTDIR);
                }
                Ok(inode.entries.keys().copied().collect::<Vec<_>>().join(" "))
            }
            Request::Fsync | Request::Remount => Ok(String::new()),
        }
    }

    /// The whole tree by path.
    pub fn dump(&self) -> Dump {
        let mut dump = Dump::new();
        self.dump_inode(0, String::new(), &mut dump);
        dump
    }

    fn dump_inode(&self, inode: usize, path: String, dump: &mut Dump) {
        let found = &self.inodes[inode];
        for (name, child) in &found.entries {
            self.dump_inode(*child, format!("{path}/{name}"), dump);
        }
        let attributes = found.attributes.iter().map(|(name, value)| (name.to_string(), value.clone())).collect();
        let node = Node {
            kind: found.kind,
            permissions: found.permissions,
            uid: found.uid,
            gid: found.gid,
            nlink: found.nlink,
            content: found.content.clone(),
            attributes,
        };
        dump.insert(path, node);
    }
}
