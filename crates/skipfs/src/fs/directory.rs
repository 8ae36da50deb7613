//! Reading directories.
//!
//! A `DirectoryHandle` numbers the names as it returns them: the offset of an entry is its place in this list. So an
//! offset stays valid whatever happens to the directory. New names are read in pages behind the last name that was
//! returned, so an entry that is there from the beginning to the end is returned exactly once.
//!
//! A page that was read ahead is used as long as no entry of the directory has changed, and is then read again.

use super::inodes::{EntriesVersion, Pin, record_of};
use super::system::{SkipFs, damaged};
use crate::error::{FsError, FsResult};
use crate::format::{Attributes, Entry, FileKind, Key, key};
use crate::store::Store;
use std::collections::VecDeque;
use std::ops::ControlFlow;

/// Entries of the first page of a handle, and of the largest one. Each page is twice as large as the one before.
const PAGE_MIN: usize = 64;
const PAGE_MAX: usize = 1024;
/// `.` and `..` come first.
const DOTS: u64 = 2;

/// An open directory. One thread at a time.
#[derive(Debug)]
pub struct DirectoryHandle {
    ino: u64,
    /// The entries that were returned.
    returned: Vec<Returned>,
    /// Entries after those.
    ahead: VecDeque<(Box<[u8]>, Entry)>,
    page: usize,
    /// Whether there were no entries after `ahead`.
    is_last: bool,
    /// The version of the entries and the table's `removals` when `ahead` was read. No version is the default.
    seen_entries: EntriesVersion,
    seen_removals: u64,
}

#[derive(Debug)]
struct Returned {
    name: Box<[u8]>,
    ino: u64,
    kind: FileKind,
}

/// An entry of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectoryEntry<'e> {
    /// The inode number.
    pub ino: u64,
    /// Its type.
    pub kind: FileKind,
    /// The name.
    pub name: &'e [u8],
    /// The offset at which reading goes on after this entry.
    pub next_offset: u64,
}

/// What a visitor says of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visit {
    /// It took the entry.
    Taken,
    /// It has no space for the entry. Reading ends.
    Full,
}

/// Which entries are to be returned, and how.
enum Visitor<'v> {
    Plain(&'v mut dyn FnMut(DirectoryEntry<'_>) -> Visit),
    Plus(&'v mut dyn FnMut(DirectoryEntry<'_>, &Attributes) -> Visit),
}

impl<S: Store> SkipFs<S> {
    /// Opens a directory for reading. No operation of the store.
    ///
    /// # Errors
    /// `ENOTDIR` if it is none.
    pub fn opendir(&self, ino: u64) -> FsResult<DirectoryHandle> {
        let directory = self.pin(ino)?;
        if directory.kind != FileKind::Directory {
            return Err(FsError::new(libc::ENOTDIR));
        }
        let (returned, ahead) = (Vec::new(), VecDeque::new());
        Ok(DirectoryHandle {
            ino,
            returned,
            ahead,
            page: PAGE_MIN,
            is_last: false,
            seen_entries: EntriesVersion::default(),
            seen_removals: 0,
        })
    }

    /// Calls `visit` with the entries from an offset on: 0, or the `next_offset` of an entry that this handle has
    /// returned. Offset 0 begins anew. One scan for each page of entries.
    ///
    /// # Errors
    /// Those of the store.
    pub fn readdir(
        &self,
        handle: &mut DirectoryHandle,
        offset: u64,
        visit: &mut dyn FnMut(DirectoryEntry<'_>) -> Visit,
    ) -> FsResult<()> {
        self.read_directory(handle, offset, &mut Visitor::Plain(visit))
    }

    /// Like `readdir`, with attributes. Adds a lookup to the inode of each entry that is taken, except `.` and `..`.
    /// One scan for each page, and one get for each inode with several names. Entries from an offset before the end
    /// of what was returned cost a get each.
    ///
    /// # Errors
    /// Those of the store.
    pub fn readdirplus(
        &self,
        handle: &mut DirectoryHandle,
        offset: u64,
        visit: &mut dyn FnMut(DirectoryEntry<'_>, &Attributes) -> Visit,
    ) -> FsResult<()> {
        self.read_directory(handle, offset, &mut Visitor::Plus(visit))
    }

    fn read_directory(&self, handle: &mut DirectoryHandle, offset: u64, visitor: &mut Visitor<'_>) -> FsResult<()> {
        let directory = self.pin(handle.ino)?;
        let mut at = offset;
        if at == 0 {
            handle.returned.clear();
            handle.ahead.clear();
            handle.is_last = false;
        }
        while at < DOTS {
            let (name, ino): (&[u8], u64) = if at == 0 { (b".", directory.ino) } else { (b"..", directory.parent()) };
            let entry = DirectoryEntry { ino, kind: FileKind::Directory, name, next_offset: at + 1 };
            // No caller asks for the attributes of a parent that is not in use.
            let attributes = self.getattr(ino).or_else(|_| self.getattr(directory.ino))?;
            if visitor.visit(entry, &attributes) == Visit::Full {
                return Ok(());
            }
            at += 1;
        }
        while let Some(visit) = self.read_entry(handle, &directory, at, visitor)? {
            if visit == Visit::Full {
                return Ok(());
            }
            at += 1;
        }
        Ok(())
    }

    /// Returns the entry at an offset; `None` after the last one.
    fn read_entry(
        &self,
        handle: &mut DirectoryHandle,
        directory: &Pin<'_>,
        at: u64,
        visitor: &mut Visitor<'_>,
    ) -> FsResult<Option<Visit>> {
        let Ok(place) = usize::try_from(at - DOTS) else { return Ok(None) };
        if place < handle.returned.len() {
            return self.read_again(&handle.returned[place], directory, at, visitor).map(Some);
        }
        if place > handle.returned.len() {
            return Ok(None);
        }
        let state = self.read_locked(directory)?;
        let is_changed = handle.seen_entries != state.entries;
        if is_changed || (handle.ahead.is_empty() && !handle.is_last) {
            handle.seen_entries = state.entries;
            self.read_ahead(handle)?;
        }
        let Some((name, entry)) = handle.ahead.front() else { return Ok(None) };
        let (ino, kind) = (entry.ino(), entry.kind());
        let found = DirectoryEntry { ino, kind, name, next_offset: at + 1 };
        let visit = match visitor {
            Visitor::Plain(visit) => visit(found),
            Visitor::Plus(visit) => {
                let child = self.adopt(handle.ino, name, entry.clone(), handle.seen_removals);
                // Under the lock: a removal of the name must see it. So does what the visit passes on at once.
                child.look_up();
                // Unlocked: waiting for the child must not hold up others (rule 4).
                drop(state);
                visit_child(self, &child, found, visit)?
            }
        };
        if visit == Visit::Taken
            && let Some((name, _)) = handle.ahead.pop_front()
        {
            handle.returned.push(Returned { name, ino, kind });
        }
        Ok(Some(visit))
    }

    /// Returns an entry that was returned before. With attributes only if it still exists.
    fn read_again(
        &self,
        returned: &Returned,
        directory: &Pin<'_>,
        at: u64,
        visitor: &mut Visitor<'_>,
    ) -> FsResult<Visit> {
        let Returned { name, ino, kind } = returned;
        let entry = DirectoryEntry { ino: *ino, kind: *kind, name, next_offset: at + 1 };
        match visitor {
            Visitor::Plain(visit) => Ok(visit(entry)),
            Visitor::Plus(visit) => {
                let state = self.read_locked(directory)?;
                let child = self.find(directory.ino, name)?;
                child.iter().for_each(Pin::look_up);
                drop(state);
                match child {
                    Some(child) => {
                        let entry = DirectoryEntry { ino: child.ino, kind: child.kind, ..entry };
                        visit_child(self, &child, entry, visit)
                    }
                    None => Ok(Visit::Taken),
                }
            }
        }
    }

    /// Reads the page after the last name that was returned. Requires the directory's lock.
    fn read_ahead(&self, handle: &mut DirectoryHandle) -> FsResult<()> {
        handle.ahead.clear();
        handle.seen_removals = self.table.removals();
        let (first, end) = key::entries(handle.ino);
        let start = handle.returned.last().map_or(first, |last| key::after_entry(handle.ino, &last.name));
        let mut failed = None;
        self.store.scan(&start, &end, &mut |found, value| {
            let Some(Key::Entry { name, .. }) = Key::decode(found) else {
                failed = Some(FsError::damaged(found, "a name that no entry can have"));
                return ControlFlow::Break(());
            };
            match Entry::decode(value) {
                Ok(entry) => handle.ahead.push_back((name.into(), entry)),
                Err(error) => {
                    failed = Some(damaged(found)(error));
                    return ControlFlow::Break(());
                }
            }
            if handle.ahead.len() < handle.page { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        handle.is_last = handle.ahead.len() < handle.page;
        handle.page = (handle.page * 2).min(PAGE_MAX);
        // What comes before damage can be read.
        match failed {
            Some(error) if handle.ahead.is_empty() => Err(error),
            _ => Ok(()),
        }
    }
}

impl Visitor<'_> {
    fn visit(&mut self, entry: DirectoryEntry<'_>, attributes: &Attributes) -> Visit {
        match self {
            Self::Plain(visit) => visit(entry),
            Self::Plus(visit) => visit(entry, attributes),
        }
    }
}

/// Visits an entry with its attributes. Requires a lookup for it, and takes it back unless the entry is taken.
fn visit_child<S: Store>(
    fs: &SkipFs<S>,
    child: &Pin<'_>,
    entry: DirectoryEntry<'_>,
    visit: &mut dyn FnMut(DirectoryEntry<'_>, &Attributes) -> Visit,
) -> FsResult<Visit> {
    let attributes = fs.read_locked(child).and_then(|state| Ok(record_of(&state)?.attributes));
    let visit = attributes.map(|attributes| visit(entry, &attributes));
    if !matches!(visit, Ok(Visit::Taken)) {
        fs.forget(child.ino, 1);
    }
    visit
}
