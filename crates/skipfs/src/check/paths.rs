//! The paths of inodes, for findings. Pure.

use super::gather::{Inode, Name};
use crate::format::{Key, ROOT};
use std::collections::BTreeMap;

/// No way from the root is longer in a sound file system that the kernel can use by path. It ends circles, too.
const DEPTH_MAX: usize = 4096;

/// The path of an inode through its first name; `None` if no way leads to it from the root.
pub(super) fn path_of(inodes: &BTreeMap<u64, Inode>, ino: u64) -> Option<String> {
    let (mut ino, mut names) = (ino, Vec::new());
    while ino != ROOT {
        let name = inodes.get(&ino)?.names.first()?;
        names.push(bytes_of(name)?);
        ino = name.directory;
        if names.len() > DEPTH_MAX {
            return None;
        }
    }
    let path: String = names.iter().rev().map(|name| format!("/{}", shown(name))).collect();
    Some(if path.is_empty() { "/".into() } else { path })
}

/// The path of a name; `None` if no way leads to its directory.
pub(super) fn path_of_name(inodes: &BTreeMap<u64, Inode>, name: &Name) -> Option<String> {
    let directory = path_of(inodes, name.directory)?;
    Some(format!("{}/{}", directory.trim_end_matches('/'), shown(bytes_of(name)?)))
}

/// A path before what is said of it; nothing if it is not known.
pub(super) fn before(path: Option<String>, what: &str) -> String {
    path.map_or_else(|| what.to_owned(), |path| format!("{path}, {what}"))
}

fn bytes_of(name: &Name) -> Option<&[u8]> {
    match Key::decode(&name.key) {
        Some(Key::Entry { name, .. }) => Some(name),
        _ => None,
    }
}

/// A name as people read it, without what a terminal would obey.
fn shown(name: &[u8]) -> String {
    String::from_utf8_lossy(name).escape_debug().to_string()
}
