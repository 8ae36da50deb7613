//! What this process has now: threads, descriptors, memory, address space. From `/proc/self`.

use std::fs;

/// What the process has. Each number may be compared with an earlier one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Threads.
    pub threads: u64,
    /// Open file descriptors.
    pub descriptors: u64,
    /// Resident memory, mapped files included (`VmRSS`), in bytes.
    pub resident: u64,
    /// Resident memory without files (`RssAnon`), in bytes.
    pub anonymous: u64,
    /// Reserved address space (`VmSize`), in bytes.
    pub reserved: u64,
}

impl Usage {
    /// That of this process.
    pub fn now() -> Result<Self, String> {
        let status = fs::read_to_string("/proc/self/status").map_err(|error| format!("/proc/self/status: {error}"))?;
        let open = fs::read_dir("/proc/self/fd").map_err(|error| format!("/proc/self/fd: {error}"))?.count();
        // One of them is the directory that was just listed.
        let descriptors = (open as u64).saturating_sub(1);
        Self::parse(&status, descriptors).ok_or_else(|| "/proc/self/status: figures are missing".to_owned())
    }

    fn parse(status: &str, descriptors: u64) -> Option<Self> {
        let number = |name: &str| -> Option<u64> {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse().ok()
        };
        let kibibytes = |name: &str| Some(number(name)? * 1024);
        Some(Self {
            threads: number("Threads:")?,
            descriptors,
            resident: kibibytes("VmRSS:")?,
            anonymous: kibibytes("RssAnon:")?,
            reserved: kibibytes("VmSize:")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_s_text() {
        let status = "Name:\tx\nVmSize:\t  100 kB\nVmRSS:\t   40 kB\nRssAnon:\t   30 kB\nThreads:\t3\n";
        let usage = Usage::parse(status, 5).unwrap();
        let expected =
            Usage { threads: 3, descriptors: 5, resident: 40 << 10, anonymous: 30 << 10, reserved: 100 << 10 };
        assert_eq!(usage, expected);
        assert_eq!(Usage::parse("VmSize: 1 kB\n", 5), None);
    }

    #[test]
    fn a_descriptor_more_is_counted() {
        let before = Usage::now().unwrap();
        assert!(before.threads >= 1 && before.descriptors >= 3 && before.reserved >= before.resident, "{before:?}");
    }
}
