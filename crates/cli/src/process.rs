//! Information from the system about this process.

use std::fs;

/// The peak resident memory of the process; `None` if the system does not report it.
pub fn peak_resident_bytes() -> Option<u64> {
    peak_in(&fs::read_to_string("/proc/self/status").ok()?)
}

fn peak_in(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::peak_in;

    #[test]
    fn the_peak_is_parsed_from_its_line() {
        assert_eq!(peak_in("Name:\tx\nVmHWM:\t  2048 kB\nVmRSS:\t 1 kB\n"), Some(2 << 20));
        assert_eq!(peak_in("Name:\tx\n"), None);
        assert_eq!(peak_in("VmHWM:\tmuch\n"), None);
    }
}
