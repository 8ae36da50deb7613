//! The ways in which a store can die, and what must survive each.

use alluvium::storage::simulated::SimulatedStorage;
use alluvium::{LogMemory, Options};
use std::fmt;
use std::time::Duration;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Death {
    /// The process; the machine goes on. Nothing acknowledged may be gone.
    Kill,
    /// The process, and the next opener does not know the life: nothing is gone, but it must apply the rule of power loss.
    KillUnknown,
    /// The process, and the next opener asks for a cut.
    KillForced,
    /// The process, and the file system is cleanly unmounted and mounted again: everything is there, in another life.
    Remount,
    /// The machine, with this seed. Everything synced is there, and a prefix of the rest.
    PowerCut(u64),
    /// The file system under the process, within one boot: the data is lost as with the machine.
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

    /// Whether what was only acknowledged may be gone.
    pub fn loses_unsynced(self) -> bool {
        matches!(self, Self::PowerCut(_) | Self::MountLost(_))
    }

    /// How to open after it.
    pub fn options(self, maplets: bool) -> Options {
        Options { force_cut: self == Self::KillForced, maplets, ..options() }
    }
}

impl fmt::Display for Death {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kill => f.write_str("a kill"),
            Self::KillUnknown => f.write_str("a kill after which the life cannot be told"),
            Self::KillForced => f.write_str("a kill and a forced cut"),
            Self::Remount => f.write_str("a kill and a remount"),
            Self::PowerCut(seed) => write!(f, "power cut {seed}"),
            Self::MountLost(seed) => write!(f, "lost mount {seed}"),
        }
    }
}

/// Passes only where a run lets it pass: an operation of the disk takes microseconds.
pub const SYNC_INTERVAL: Duration = Duration::from_secs(100);

/// The options of every store of these tests: only the run syncs.
pub fn options() -> Options {
    Options {
        memory_budget: Some(256 << 10),
        background_threads: Some(1),
        sync_interval: Some(SYNC_INTERVAL),
        // The disk decides (`set_memory_outlives`).
        log_memory: LogMemory::Auto,
        ..Options::default()
    }
}
