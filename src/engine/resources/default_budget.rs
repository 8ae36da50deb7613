//! The budget of stores that name none. It follows the memory of the machine, or the lowest limit of the control groups
//! that the process is in. Any thread; limits change while a process runs, so callers ask again.

use crate::io::memory::control_group::{ControlGroups, GroupMemory};
use crate::io::memory::machine::MachineMemory;

/// The budget is this part of the memory that the process may use, and at most `BYTES_MAX`: an embedded store is a guest
/// in its program.
const PART: u64 = 4;
/// See `PART`.
const BYTES_MAX: u64 = 1 << 30;
/// In the smallest container a store still has this much.
const BYTES_MIN: u64 = 1 << 20;
/// If nothing can be read.
const UNKNOWN_MACHINE_BYTES: u64 = 1 << 30;

/// The budget now.
pub(crate) fn default_budget() -> u64 {
    budget_of(MachineMemory::now(), &ControlGroups::of_this_process().memory())
}

fn budget_of(machine: Option<MachineMemory>, groups: &[GroupMemory]) -> u64 {
    let limits = groups.iter().map(|group| group.limit);
    let memory = limits.chain(machine.map(|machine| machine.total)).min().unwrap_or(UNKNOWN_MACHINE_BYTES);
    (memory / PART).clamp(BYTES_MIN, BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn a_quarter_of_the_lowest_limit_up_to_a_gibibyte() {
        let machine = |total| Some(MachineMemory { total, available: 0 });
        let group = |limit| GroupMemory { limit, usage: 0, cached: 0 };
        assert_eq!(budget_of(machine(2 * GIB), &[]), GIB / 2);
        assert_eq!(budget_of(machine(64 * GIB), &[]), GIB);
        assert_eq!(budget_of(machine(64 * GIB), &[group(3 * GIB), group(512 << 20)]), 128 << 20);
        assert_eq!(budget_of(machine(GIB), &[group(16 * GIB)]), GIB / 4);
        assert_eq!(budget_of(machine(0), &[]), BYTES_MIN);
        assert_eq!(budget_of(None, &[]), UNKNOWN_MACHINE_BYTES / 4);
    }
}
