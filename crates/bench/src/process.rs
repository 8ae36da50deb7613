//! The kernel's counters for this process. `None`, never an error, if the kernel does not report one.

use rustix::time::{ClockId, clock_gettime};
use std::fs;
use std::time::Duration;

/// Processor time of all threads so far, including ended ones; user and system.
pub fn cpu_time() -> Duration {
    clock(ClockId::ProcessCPUTime)
}

/// Processor time of the calling thread.
pub fn thread_cpu_time() -> Duration {
    clock(ClockId::ThreadCPUTime)
}

fn clock(id: ClockId) -> Duration {
    let time = clock_gettime(id);
    // The kernel keeps both in range.
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// Bytes written to and read from devices, by the kernel's count of pages dirtied and fetched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceBytes {
    /// Fetched.
    pub read: u64,
    /// Dirtied.
    pub written: u64,
}

/// Those of this process so far.
pub fn device_bytes() -> Option<DeviceBytes> {
    device_bytes_in(&fs::read_to_string("/proc/self/io").ok()?)
}

fn device_bytes_in(text: &str) -> Option<DeviceBytes> {
    let number = |name: &str| text.lines().find_map(|line| line.strip_prefix(name))?.trim().parse().ok();
    Some(DeviceBytes { read: number("read_bytes:")?, written: number("write_bytes:")? })
}

/// Resets the peak of resident memory; false if that is not permitted.
pub fn reset_peak_resident() -> bool {
    fs::write("/proc/self/clear_refs", "5").is_ok()
}

/// The peak resident memory.
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
    use super::*;
    use std::time::Instant;

    #[test]
    fn the_kernel_s_texts() {
        let io = "rchar: 9\nwchar: 8\nread_bytes: 4096\nwrite_bytes: 12288\ncancelled_write_bytes: 5\n";
        assert_eq!(device_bytes_in(io), Some(DeviceBytes { read: 4096, written: 12288 }));
        assert_eq!(device_bytes_in("read_bytes: x\n"), None);
        assert_eq!(peak_in("VmHWM:\t  2048 kB\nVmRSS:\t 1 kB\n"), Some(2 << 20));
        assert_eq!(peak_in("VmHWM: 2 MB\n"), None);
    }

    #[test]
    fn work_takes_processor_time_and_sleep_does_not() {
        let (before, started) = (thread_cpu_time(), Instant::now());
        while started.elapsed() < Duration::from_millis(30) {
            std::hint::black_box(started);
        }
        let worked = thread_cpu_time() - before;
        assert!(worked > Duration::from_millis(1) && worked <= started.elapsed(), "{worked:?}");
        let before = thread_cpu_time();
        std::thread::sleep(Duration::from_millis(30));
        assert!(thread_cpu_time() - before < Duration::from_millis(10));
        assert!(cpu_time() >= worked);
    }
}
