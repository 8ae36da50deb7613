//! What a worker's directory must contain: a tree in memory, and the operations on it.

use crate::support::Random;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Directories hold names up to this depth.
const DEPTH_MAX: usize = 3;
const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
/// A file that would get larger is cut.
const FILE_BYTES_MAX: u64 = 700_000;
const PAGE_BYTES: usize = 4096;

/// A system call. The kernel makes one request of each, but several of a long write, which begin at pages.
#[derive(Clone, Debug)]
pub enum Operation {
    Create(String),
    Mkdir(String),
    Symlink(String, String),
    /// Path, offset, length, first byte.
    Write(String, u64, usize, u8),
    Append(String, usize, u8),
    Truncate(String, u64),
    Rename(String, String),
    Link(String, String),
    Unlink(String),
    Rmdir(String),
    Fsync(String),
}

/// What a name leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Named {
    Directory,
    Symlink(String),
    /// A number in `files`.
    File(usize),
}

/// What a dump of a tree shows: the content of each path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    Directory,
    Symlink(String),
    File(Arc<Vec<u8>>),
}

/// The tree.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    names: BTreeMap<String, Named>,
    /// Shared with the trees before and after.
    files: BTreeMap<usize, Arc<Vec<u8>>>,
    next: usize,
}

/// The bytes that a write writes.
pub fn bytes(first: u8, length: usize) -> Vec<u8> {
    (0..length).map(|at| first.wrapping_add((at / 5) as u8)).collect()
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

fn join(directory: &str, name: &str) -> String {
    if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") }
}

impl Tree {
    pub fn dump(&self) -> BTreeMap<String, Content> {
        let content = |named: &Named| match named {
            Named::Directory => Content::Directory,
            Named::Symlink(target) => Content::Symlink(target.clone()),
            Named::File(file) => Content::File(Arc::clone(&self.files[file])),
        };
        self.names.iter().map(|(path, named)| (path.clone(), content(named))).collect()
    }

    fn is_empty(&self, directory: &str) -> bool {
        !self.names.keys().any(|path| parent(path) == directory)
    }

    fn pick(&self, random: &mut Random, fits: impl Fn(&str, &Named) -> bool) -> Option<String> {
        let fitting: Vec<&String> =
            self.names.iter().filter(|(path, named)| fits(path, named)).map(|(path, _)| path).collect();
        if fitting.is_empty() { None } else { Some(fitting[random.below(fitting.len() as u64) as usize].clone()) }
    }

    fn pick_file(&self, random: &mut Random) -> Option<String> {
        self.pick(random, |_, named| matches!(named, Named::File(_)))
    }

    /// A path that is free.
    fn pick_free(&self, random: &mut Random) -> Option<String> {
        let is_directory =
            |path: &str, named: &Named| *named == Named::Directory && path.split('/').count() < DEPTH_MAX;
        let directory = if random.one_in(3) { None } else { self.pick(random, is_directory) };
        let path = join(&directory.unwrap_or_default(), random.pick(&NAMES));
        (!self.names.contains_key(&path)).then_some(path)
    }

    /// An operation that must succeed.
    pub fn choose(&self, random: &mut Random) -> Operation {
        loop {
            if let Some(operation) = self.try_choose(random) {
                return operation;
            }
        }
    }

    fn try_choose(&self, random: &mut Random) -> Option<Operation> {
        let length = |random: &mut Random| {
            let most = random.pick(&[100, 3000, 20_000, 280_000]);
            1 + random.below(most) as usize
        };
        Some(match random.below(24) {
            0..=3 => Operation::Create(self.pick_free(random)?),
            4 | 5 => Operation::Mkdir(self.pick_free(random)?),
            6 => Operation::Symlink(self.pick_free(random)?, format!("to/{}", random.below(1000))),
            7..=10 => {
                let (path, length) = (self.pick_file(random)?, length(random));
                let offset = random.below(FILE_BYTES_MAX / 2);
                Operation::Write(path, if random.one_in(2) { 0 } else { offset }, length, random.next() as u8)
            }
            11..=13 => Operation::Append(self.pick_file(random)?, length(random), random.next() as u8),
            14 | 15 => Operation::Truncate(self.pick_file(random)?, random.below(FILE_BYTES_MAX)),
            16..=18 => {
                let from = self.pick(random, |_, _| true)?;
                let to = if random.one_in(3) { self.pick_file(random)? } else { self.pick_free(random)? };
                let is_inside = |outer: &str, inner: &str| inner == outer || inner.starts_with(&format!("{outer}/"));
                let replaces = self.names.contains_key(&to);
                // The names of a directory that moves may get too deep; that does no harm.
                if is_inside(&from, &to) || (replaces && self.names[&from] == Named::Directory) {
                    return None;
                }
                Operation::Rename(from, to)
            }
            19 => Operation::Link(self.pick_file(random)?, self.pick_free(random)?),
            20 | 21 => Operation::Unlink(self.pick(random, |_, named| *named != Named::Directory)?),
            22 => Operation::Rmdir(self.pick(random, |path, named| *named == Named::Directory && self.is_empty(path))?),
            _ => Operation::Fsync(self.pick_file(random)?),
        })
    }

    fn file(&mut self, path: &str) -> &mut Vec<u8> {
        let Some(Named::File(file)) = self.names.get(path) else { panic!("{path} is no file of the model") };
        Arc::make_mut(self.files.get_mut(file).unwrap())
    }

    /// Applies an operation that the tree has chosen.
    pub fn apply(&mut self, operation: &Operation) {
        match operation {
            Operation::Create(path) => {
                self.files.insert(self.next, Arc::default());
                self.names.insert(path.clone(), Named::File(self.next));
                self.next += 1;
            }
            Operation::Mkdir(path) => _ = self.names.insert(path.clone(), Named::Directory),
            Operation::Symlink(path, target) => {
                self.names.insert(path.clone(), Named::Symlink(target.clone()));
            }
            Operation::Write(path, offset, length, first) => {
                let (file, start) = (self.file(path), *offset as usize);
                file.resize(file.len().max(start + length), 0);
                file[start..start + length].copy_from_slice(&bytes(*first, *length));
            }
            Operation::Append(path, length, first) => {
                let data = bytes(*first, *length);
                self.file(path).extend(data);
            }
            Operation::Truncate(path, size) => self.file(path).resize(*size as usize, 0),
            Operation::Rename(from, to) => self.rename(from, to),
            Operation::Link(from, to) => {
                let named = self.names[from].clone();
                self.names.insert(to.clone(), named);
            }
            Operation::Unlink(path) | Operation::Rmdir(path) => {
                self.names.remove(path);
                self.drop_unnamed();
            }
            Operation::Fsync(_) => {}
        }
    }

    /// This tree with a part of a write, if it then shows what was found.
    pub fn in_the_middle_of(&self, write: &Operation, found: &BTreeMap<String, Content>) -> Option<Self> {
        let (path, start, length, first) = match write {
            Operation::Write(path, offset, length, first) => (path, *offset as usize, *length, *first),
            Operation::Append(path, length, first) => (path, self.clone().file(path).len(), *length, *first),
            _ => return None,
        };
        if !self.names.keys().eq(found.keys()) {
            return None;
        }
        let mut ends = (start + 1..start + length).filter(|end| end % PAGE_BYTES == 0);
        ends.find_map(|end| {
            let mut tree = self.clone();
            tree.apply(&Operation::Write(path.clone(), start as u64, end - start, first));
            (tree.dump() == *found).then_some(tree)
        })
    }

    fn rename(&mut self, from: &str, to: &str) {
        // Two names of one file: nothing happens.
        if self.names.get(from) == self.names.get(to) && matches!(self.names[from], Named::File(_)) {
            return;
        }
        let inside = format!("{from}/");
        let moved: Vec<String> =
            self.names.keys().filter(|path| *path == from || path.starts_with(&inside)).cloned().collect();
        for path in moved {
            let named = self.names.remove(&path).unwrap();
            self.names.insert(format!("{to}{}", &path[from.len()..]), named);
        }
        self.drop_unnamed();
    }

    fn drop_unnamed(&mut self) {
        let names = &self.names;
        self.files.retain(|file, _| names.values().any(|named| *named == Named::File(*file)));
    }
}
