//! The engines of the comparison: which exist, which are built in, and how each is opened.

mod factory;
#[cfg(feature = "fjall")]
mod fjall;
pub mod keyspaces;
#[cfg(feature = "leveldb")]
mod leveldb;
pub mod library;
#[cfg(feature = "lmdb")]
mod lmdb;
pub mod ours;
#[cfg(any(feature = "lmdb", feature = "redb"))]
mod pending;
#[cfg(any(feature = "fjall", feature = "leveldb", feature = "splinterdb"))]
mod quiet;
#[cfg(feature = "redb")]
mod redb;
#[cfg(feature = "rocksdb")]
pub mod rocksdb;
#[allow(dead_code, reason = "which parts are used depends on the rivals that are built in")]
mod setup;
#[cfg(feature = "sled")]
mod sled;
#[cfg(feature = "splinterdb")]
mod splinterdb;
#[allow(dead_code, reason = "only rivals that are crates have a version there")]
mod versions;

#[cfg(test)]
mod tests;

pub use factory::KindFactory;
pub use setup::{Defaults, HARNESS_BYTES, Open, OpenDefault, Setting, Setup, beside_caches_bytes};

use std::fmt;
use std::path::Path;

/// The name of the engine that all others are compared with.
pub const OURS: &str = "alluvium";

/// Configurations for special questions, and an engine whose sizes must all be set.
const WITHOUT_DEFAULTS: [&str; 7] = [
    "alluvium-leveled",
    "alluvium-tiered",
    "alluvium-skip",
    "alluvium-skip-files",
    "alluvium-striped",
    "splinterdb",
    "lmdb-durable",
];

/// An engine of the comparison.
pub struct Kind {
    /// Its name on the command line and in results.
    pub name: &'static str,
    /// The feature of this crate that builds it in; `None` if it is always built in.
    pub feature: Option<&'static str>,
    /// How it is opened, if it is built in.
    pub open: Option<Open>,
    /// How it is opened with its default options, if it is built in and this is its standard configuration.
    pub open_default: Option<OpenDefault>,
    /// Whether a file of its directory is its log.
    pub is_log: fn(&Path) -> bool,
    /// Whether it can sync every write.
    pub syncs: bool,
    /// Why it cannot run here, if so.
    pub missing: fn() -> Option<String>,
    /// Whether it takes part only if it is named: a variant for a special question.
    pub by_name: bool,
}

/// The opener of an engine behind a feature.
macro_rules! built_in {
    ($feature:literal, $open:path, $kind:ty) => {{
        #[cfg(feature = $feature)]
        {
            Some($open as $kind)
        }
        #[cfg(not(feature = $feature))]
        {
            None
        }
    }};
}

/// All of them, in the order of tables and plots.
pub static KINDS: [Kind; 14] = [
    Kind {
        name: OURS,
        feature: None,
        open: Some(ours::open),
        open_default: Some(ours::open_default),
        is_log: ours::is_log,
        syncs: true,
        missing: || None,
        by_name: false,
    },
    Kind {
        name: "alluvium-leveled",
        feature: None,
        open: Some(ours::open_leveled),
        open_default: None,
        is_log: ours::is_log,
        syncs: true,
        missing: || None,
        by_name: true,
    },
    Kind {
        name: "alluvium-tiered",
        feature: None,
        open: Some(ours::open_tiered),
        open_default: None,
        is_log: ours::is_log,
        syncs: true,
        missing: || None,
        by_name: true,
    },
    Kind {
        name: "alluvium-skip",
        feature: None,
        open: Some(ours::open_skip),
        open_default: None,
        is_log: ours::is_log,
        syncs: true,
        missing: || None,
        by_name: true,
    },
    Kind {
        name: "alluvium-skip-files",
        feature: None,
        open: Some(ours::open_skip_files),
        open_default: None,
        is_log: ours::is_log,
        syncs: true,
        missing: || None,
        by_name: true,
    },
    Kind {
        name: "alluvium-striped",
        feature: None,
        open: Some(ours::open_striped),
        open_default: None,
        is_log: ours::is_log,
        syncs: true,
        missing: || None,
        by_name: true,
    },
    Kind {
        name: "rocksdb",
        feature: Some("rocksdb"),
        open: built_in!("rocksdb", rocksdb::open, Open),
        open_default: built_in!("rocksdb", rocksdb::open_default, OpenDefault),
        is_log: |path| has_extension(path, "log"),
        syncs: true,
        missing: || None,
        by_name: false,
    },
    Kind {
        name: "splinterdb",
        feature: Some("splinterdb"),
        open: built_in!("splinterdb", splinterdb::open, Open),
        open_default: None,
        is_log: |_| false,
        syncs: false,
        missing: splinterdb_missing,
        by_name: false,
    },
    Kind {
        name: "fjall",
        feature: Some("fjall"),
        open: built_in!("fjall", fjall::open, Open),
        open_default: built_in!("fjall", fjall::open_default, OpenDefault),
        is_log: |path| has_extension(path, "jnl"),
        syncs: true,
        missing: || None,
        by_name: false,
    },
    Kind {
        name: "leveldb",
        feature: Some("leveldb"),
        open: built_in!("leveldb", leveldb::open, Open),
        open_default: built_in!("leveldb", leveldb::open_default, OpenDefault),
        is_log: |path| has_extension(path, "log"),
        syncs: true,
        missing: || None,
        by_name: false,
    },
    Kind {
        name: "lmdb",
        feature: Some("lmdb"),
        open: built_in!("lmdb", lmdb::open_unsynced, Open),
        open_default: built_in!("lmdb", lmdb::open_default, OpenDefault),
        is_log: |_| false,
        syncs: false,
        missing: || None,
        by_name: false,
    },
    Kind {
        name: "lmdb-durable",
        feature: Some("lmdb"),
        open: built_in!("lmdb", lmdb::open_durable, Open),
        open_default: None,
        is_log: |_| false,
        syncs: true,
        missing: || None,
        by_name: false,
    },
    Kind {
        name: "redb",
        feature: Some("redb"),
        open: built_in!("redb", redb::open, Open),
        open_default: built_in!("redb", redb::open_default, OpenDefault),
        is_log: |_| false,
        syncs: true,
        missing: || None,
        by_name: false,
    },
    Kind {
        name: "sled",
        feature: Some("sled"),
        open: built_in!("sled", sled::open, Open),
        open_default: built_in!("sled", sled::open_default, OpenDefault),
        is_log: |_| false,
        syncs: true,
        missing: || None,
        by_name: true,
    },
];

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|found| found == extension)
}

fn splinterdb_missing() -> Option<String> {
    match library::path() {
        None => Some(format!("no shared library: --splinterdb-lib and {} name none", library::VARIABLE)),
        Some(path) if !path.is_file() => Some(format!("no shared library at {}", path.display())),
        Some(_) => None,
    }
}

impl Kind {
    /// Why it cannot take part; `None` if it can.
    pub fn hindrance(&self, sync: bool) -> Option<String> {
        if self.open.is_none() {
            let feature = self.feature.unwrap_or_default();
            return Some(format!("not built in; build with --features {feature}"));
        }
        if sync && !self.syncs {
            return Some("it cannot sync every write".to_owned());
        }
        (self.missing)()
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// The engine with this name.
pub fn find(name: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.name == name)
}

/// The engines that take part, and why others do not.
#[derive(Debug, Default)]
pub struct Selection {
    /// Those that take part.
    pub taken: Vec<&'static Kind>,
    /// Those that were not named and cannot take part, with the reason.
    pub skipped: Vec<(&'static str, String)>,
}

/// Picks engines by name; without names, all that can take part here except those that must be named.
///
/// # Errors
/// A name that no engine has, or a named engine that cannot take part.
pub fn select(names: &[String], sync: bool) -> Result<Selection, String> {
    let mut selection = Selection::default();
    if names.is_empty() {
        for kind in KINDS.iter().filter(|kind| !kind.by_name) {
            match kind.hindrance(sync) {
                None => selection.taken.push(kind),
                Some(why) => selection.skipped.push((kind.name, why)),
            }
        }
        return Ok(selection);
    }
    for name in names {
        let known = || KINDS.iter().map(|kind| kind.name).collect::<Vec<_>>().join(", ");
        let kind = find(name).ok_or_else(|| format!("there is no engine \"{name}\"; known: {}", known()))?;
        if let Some(why) = kind.hindrance(sync) {
            return Err(format!("{name} cannot take part: {why}"));
        }
        if selection.taken.iter().all(|taken| taken.name != kind.name) {
            selection.taken.push(kind);
        }
    }
    Ok(selection)
}

/// Picks engines that can be opened with their default options: those that are named, otherwise all that are built in.
///
/// # Errors
/// A name that no engine has, or a named engine that is not built in or has no default configuration.
pub fn select_defaults(names: &[String]) -> Result<Selection, String> {
    if names.is_empty() {
        let mut selection = Selection::default();
        for kind in KINDS.iter().filter(|kind| !WITHOUT_DEFAULTS.contains(&kind.name)) {
            match kind.hindrance(false) {
                None => selection.taken.push(kind),
                Some(why) => selection.skipped.push((kind.name, why)),
            }
        }
        return Ok(selection);
    }
    let named = select(names, false)?;
    match named.taken.iter().find(|kind| kind.open_default.is_none()) {
        Some(kind) => Err(format!("{} has no configuration with default options here", kind.name)),
        None => Ok(named),
    }
}

/// Prints which engines exist, and why some are not available.
pub fn list() {
    for kind in &KINDS {
        let state = kind.hindrance(false).unwrap_or_else(|| {
            let synced = if kind.syncs { "" } else { "; not with --sync" };
            let named = if kind.by_name { "; only where it is named" } else { "" };
            format!("ready{synced}{named}")
        });
        println!("{:<19} {state}", kind.name);
    }
}

/// RocksDB's version; empty if it is not built in.
pub fn rocksdb_version() -> String {
    #[cfg(feature = "rocksdb")]
    let version = rocksdb::version();
    #[cfg(not(feature = "rocksdb"))]
    let version = String::new();
    version
}

/// Their names, in the order of tables.
pub fn names() -> Vec<&'static str> {
    KINDS.iter().map(|kind| kind.name).collect()
}
