//! The machine and the source, for the record.

use serde::{Deserialize, Serialize};
use std::fs;
use std::process::Command;

/// What a reader needs to know about the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Machine {
    /// The processor's name.
    pub processor: String,
    /// Processors that the kernel sees.
    pub cores: usize,
    /// Memory, MiB.
    pub memory_mib: u64,
    /// The kernel's release.
    pub kernel: String,
}

impl Machine {
    /// This machine.
    pub fn here() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        Self {
            processor: processor_in(&read("/proc/cpuinfo")).unwrap_or_else(|| "unknown".to_owned()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_mib: memory_mib_in(&read("/proc/meminfo")).unwrap_or(0),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        }
    }
}

fn processor_in(cpuinfo: &str) -> Option<String> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn memory_mib_in(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find(|line| line.starts_with("MemTotal:"))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kibibytes| kibibytes >> 10)
}

/// The commit of the source in the current directory, with "-changed" if files differ from it; "unknown" without git.
pub fn commit() -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) else { return UNKNOWN.to_owned() };
    // Results and documents do not change what is measured.
    let changed = git(&["status", "--porcelain", "--", ":/src", ":/crates", ":/Cargo.toml", ":/Cargo.lock"]);
    if changed.is_none_or(|changed| changed.is_empty()) { commit } else { commit + CHANGED }
}

/// Used for the commit if there is no git.
pub const UNKNOWN: &str = "unknown";
/// Appended to a commit whose files were changed.
pub const CHANGED: &str = "-changed";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_s_texts() {
        let cpuinfo = "processor\t: 0\nmodel name\t: A Fine CPU @ 2.10GHz\nmodel name\t: B\n";
        assert_eq!(processor_in(cpuinfo).as_deref(), Some("A Fine CPU @ 2.10GHz"));
        assert_eq!(memory_mib_in("MemTotal:       24576000 kB\nMemFree: 1 kB\n"), Some(24000));
        assert_eq!(memory_mib_in("nothing"), None);
    }
}
