//! Judges what was gathered: names, links, content and numbers must agree. Pure.

use super::gather::{Content, Gathered, Inode, finding};
use super::paths::{before, path_of, path_of_name};
use super::report::Report;
use crate::format::{BLOCK_BYTES, FileKind, ROOT, Record, key};
use std::collections::{BTreeMap, BTreeSet};

/// Judges the contents of a store.
pub(super) fn judge(gathered: Gathered) -> Report {
    let mut report = Report { findings: gathered.findings, ..Report::default() };
    let inodes = &gathered.inodes;
    let mut subdirectories: BTreeMap<u64, u32> = BTreeMap::new();
    for name in inodes.values().flat_map(|inode| &inode.names) {
        if name.kind == FileKind::Directory {
            *subdirectories.entry(name.directory).or_default() += 1;
        }
    }
    let reachable = reachable(inodes);
    for (&ino, inode) in inodes {
        let Some((record, place)) = &inode.record else {
            report.findings.extend(without_record(inodes, ino, inode));
            continue;
        };
        count(&mut report, record);
        let mut judged = Judged { ino, place, inodes, findings: &mut report.findings };
        judged.names(inode, record);
        let links = match record.attributes.kind {
            FileKind::Directory => 2 + subdirectories.get(&ino).copied().unwrap_or_default(),
            _ => inode.names.len() as u32,
        };
        judged.expect("number of links", links, record.attributes.nlink);
        judged.data(inode, record);
        if inode.is_orphan {
            judged.expect("names of an orphan", 0, inode.names.len());
            report.orphans.push(ino);
        } else if !reachable.contains(&ino) {
            judged.say("way from the root", "one", "none");
        }
        if let Some(superblock) = &gathered.superblock
            && ino >= superblock.unused_from
        {
            let expected = format!("below {}", superblock.unused_from);
            report.findings.push(finding(place, &before(path_of(inodes, ino), "inode number"), expected, ino));
        }
    }
    if let Some(usage) = gathered.usage {
        let inodes = report.files + report.directories + report.others;
        for (what, expected, found) in
            [("allocated bytes", report.allocated, usage.bytes), ("inodes", inodes, usage.inodes)]
        {
            if expected != found {
                report.findings.push(finding(key::usage(), what, expected, found));
            }
        }
    }
    if inodes.get(&ROOT).is_none_or(|root| root.record.is_none()) {
        report.findings.push(finding(&key::inode(ROOT), "root directory", "a record", "none"));
    }
    report
}

fn count(report: &mut Report, record: &Record) {
    match record.attributes.kind {
        FileKind::File => {
            report.files += 1;
            report.bytes = report.bytes.saturating_add(record.attributes.size);
            report.allocated = report.allocated.saturating_add(record.attributes.allocated);
        }
        FileKind::Directory => report.directories += 1,
        _ => report.others += 1,
    }
}

/// What refers to an inode that has no record.
fn without_record(inodes: &BTreeMap<u64, Inode>, ino: u64, inode: &Inode) -> Vec<String> {
    let say = |key: &[u8], what: &str| finding(key, what, "an inode record", "none");
    let names = inode.names.iter().map(|name| say(&name.key, &before(path_of_name(inodes, name), "link")));
    let content = inode.content.iter().map(|_| say(&key::content(ino, 0, 0), "content"));
    let attributes = (inode.attributes > 0).then(|| say(&key::attributes(ino).0, "extended attributes"));
    let orphan = inode.is_orphan.then(|| say(&key::orphan(ino), "orphan"));
    names.chain(content).chain(attributes).chain(orphan).collect()
}

/// The inodes to which a way leads from the root.
fn reachable(inodes: &BTreeMap<u64, Inode>) -> BTreeSet<u64> {
    let mut children: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for (&ino, inode) in inodes {
        for name in &inode.names {
            children.entry(name.directory).or_default().push(ino);
        }
    }
    let (mut reached, mut next) = (BTreeSet::from([ROOT]), vec![ROOT]);
    while let Some(directory) = next.pop() {
        for &child in children.get(&directory).into_iter().flatten() {
            if reached.insert(child) {
                next.push(child);
            }
        }
    }
    reached
}

/// An inode that is being judged.
struct Judged<'j> {
    ino: u64,
    /// The key of its record.
    place: &'j [u8],
    inodes: &'j BTreeMap<u64, Inode>,
    findings: &'j mut Vec<String>,
}

impl Judged<'_> {
    fn say(&mut self, what: &str, expected: impl ToString, found: impl ToString) {
        let what = before(path_of(self.inodes, self.ino), &format!("inode {}, {what}", self.ino));
        self.findings.push(finding(self.place, &what, expected, found));
    }

    fn expect<T: PartialEq + ToString>(&mut self, what: &str, expected: T, found: T) {
        if expected != found {
            self.say(what, expected, found);
        }
    }

    fn names(&mut self, inode: &Inode, record: &Record) {
        for duplicate in &inode.duplicates {
            self.say("records", "one", format!("another one at \"{}\"", duplicate.escape_ascii()));
        }
        let is_directory = record.attributes.is_directory();
        if is_directory {
            self.expect("names of a directory", usize::from(self.ino != ROOT), inode.names.len());
        }
        if self.ino == ROOT {
            self.expect("parent of the root", ROOT, record.parent);
        }
        if inode.names.is_empty() && self.ino != ROOT && !inode.is_orphan {
            self.say("names", "one, or the mark of an orphan", "none");
        }
        for name in &inode.names {
            let parent = self.inodes.get(&name.directory).and_then(|parent| parent.record.as_ref());
            if !parent.is_some_and(|(parent, _)| parent.attributes.is_directory()) {
                let expected = format!("a directory {}", name.directory);
                self.findings.push(finding(&name.key, "directory of an entry", expected, "none"));
            }
            if is_directory {
                self.expect("parent", name.directory, record.parent);
            }
            if name.kind != record.attributes.kind {
                let (expected, found) = (format!("{:?}", record.attributes.kind), format!("{:?}", name.kind));
                let what = before(path_of_name(self.inodes, name), "type");
                self.findings.push(finding(&name.key, &what, expected, found));
            }
            if name.is_embedded && inode.names.len() > 1 {
                self.say("place of a record with several names", "its number", "an entry");
            }
        }
    }

    fn data(&mut self, inode: &Inode, record: &Record) {
        if inode.attributes > 0 && !record.has_attributes {
            self.say("extended attributes", "none, as the record says", inode.attributes);
        }
        if record.attributes.kind == FileKind::File {
            let of_items = inode.content.as_ref().map_or(0, Content::allocated);
            let allocated = if record.is_inline { inode.inline_bytes.next_multiple_of(BLOCK_BYTES) } else { of_items };
            self.expect("allocated bytes", allocated, record.attributes.allocated);
        }
        let Some(content) = &inode.content else { return };
        let (end, last) = (content.end(), content.last);
        if record.attributes.kind != FileKind::File || record.is_inline {
            self.say("content outside the record", "none", format!("{end} bytes"));
            return;
        }
        let size = record.attributes.size;
        if end > size || last >= size {
            self.say("end of content", format!("at most {size}"), format!("{end}, last item at {last}"));
        }
        if content.has_blocks && !record.has_blocks {
            self.say("blocks", "none, as the record says", "some");
        }
    }
}
