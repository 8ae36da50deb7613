//! The ways in which a store can die, and the data that must survive each.

use crate::support::Last;
use alluvium::Options;
use alluvium::storage::simulated::SimulatedStorage;
use std::fmt;
use std::time::Duration;

/// A way to die.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Death {
    /// The process dies, and the machine keeps running. Nothing acknowledged may be lost.
    Kill,
    /// The process dies, and the next opener cannot determine the life. Nothing is lost, but the opener must treat the
    /// log as after a power loss.
    KillUnknown,
    /// The process dies, and the next opener sets `force_cut`.
    KillForced,
    /// The process dies, and the file system is cleanly unmounted and mounted again: everything is there, in another
    /// life.
    Remount,
    /// The machine loses power, with this seed. Everything synced is there, and a prefix of the rest.
    PowerCut(u64),
    /// The file system dies under the process, within one boot. The data is lost as in a power cut.
    MountLost(u64),
}

impl Death {
    /// The disk as the next process sees it.
    pub fn strike(self, disk: &SimulatedStorage) -> SimulatedStorage {
        match self {
            Self::Kill | Self::KillForced => disk.kill(),
            Self::KillUnknown => {
                disk.set_life_known(false);
                disk.kill()
            }
            Self::Remount => disk.remount(),
            Self::PowerCut(seed) => disk.power_cut(seed),
            Self::MountLost(seed) => disk.mount_lost(seed),
        }
    }

    /// Whether writes that were acknowledged but not synced may be lost.
    pub fn loses_unsynced(self) -> bool {
        matches!(self, Self::PowerCut(_) | Self::MountLost(_))
    }

    /// The options of the next opening.
    pub fn options(self, maplets: bool) -> Options {
        options().force_cut(self == Self::KillForced).maplets(maplets)
    }
}

impl fmt::Display for Death {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kill => f.write_str("a kill"),
            Self::KillUnknown => f.write_str("a kill after which the life is unknown"),
            Self::KillForced => f.write_str("a kill and a forced cut"),
            Self::Remount => f.write_str("a kill and a remount"),
            Self::PowerCut(seed) => write!(f, "power cut {seed}"),
            Self::MountLost(seed) => write!(f, "lost mount {seed}"),
        }
    }
}

/// So long that it passes only where a run lets it pass: an operation of the disk takes microseconds.
pub const SYNC_INTERVAL: Duration = Duration::from_secs(100);

/// The options of every store of these tests: only the run syncs.
pub fn options() -> Options {
    Options::new()
        .memory_budget(256 << 10)
        .background_threads(1)
        .sync_interval(SYNC_INTERVAL)
        .merge_operator(Last { joins: false })
}
