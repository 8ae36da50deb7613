//! The memory of the machine. Reads `/proc/meminfo`; any thread.

/// Memory of the machine, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MachineMemory {
    /// All of it.
    pub total: u64,
    /// Free, or page cache that the kernel can take back (`MemAvailable`).
    pub available: u64,
}

impl MachineMemory {
    /// The present memory; `None` if the kernel does not report it.
    pub fn now() -> Option<Self> {
        Self::parse(&std::fs::read_to_string("/proc/meminfo").ok()?)
    }

    fn parse(meminfo: &str) -> Option<Self> {
        let bytes = |name: &str| {
            let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
        };
        Some(Self { total: bytes("MemTotal:")?, available: bytes("MemAvailable:")? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_s_text() {
        let text = "MemTotal:  1000 kB\nMemFree: 1 kB\nMemAvailable:   600 kB\n";
        assert_eq!(MachineMemory::parse(text), Some(MachineMemory { total: 1000 << 10, available: 600 << 10 }));
        assert_eq!(MachineMemory::parse("MemTotal: 1 kB\n"), None);
        assert_eq!(MachineMemory::parse("MemTotal: much\n"), None);
    }
}
