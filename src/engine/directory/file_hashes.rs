//! The hashes of the immutable files of an open store, as far as backups have read them. So the next backup of the same open
//! store does not read them again. Any thread.

use crate::util::sync::Mutex;
use std::collections::BTreeMap;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct FileHashes(Mutex<BTreeMap<String, u128>>);

impl FileHashes {
    /// The hash of a file, if it is known.
    pub(crate) fn get(&self, name: &str) -> Option<u128> {
        self.0.lock().get(name).copied()
    }

    /// Remembers the hash of a file.
    pub(crate) fn remember(&self, name: String, hash: u128) {
        self.0.lock().insert(name, hash);
    }

    /// Forgets files that are not needed any more.
    pub(crate) fn retain(&self, is_needed: impl Fn(&str) -> bool) {
        self.0.lock().retain(|name, _| is_needed(name));
    }
}
