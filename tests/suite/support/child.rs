//! Child processes of the tests: programs that are killed or traced, or whose resources are limited.
//!
//! They need the code of this binary, and the test harness can only start tests. So there is one entry point. The
//! harness ignores it as a test; it runs the child that the environment names.

use std::process::Command;

const ROLE: &str = "ALLUVIUM_CHILD";

/// A command that runs the child with this name.
pub fn command(role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(arguments()).env(ROLE, role);
    command
}

/// The arguments with which this binary runs a child, if the environment names one (`name`).
pub fn arguments() -> [&'static str; 4] {
    ["--ignored", "--exact", "support::child::entry_point", "--nocapture"]
}

/// The variable that names the child, and its value.
pub fn name(role: &str) -> (&'static str, &str) {
    (ROLE, role)
}

#[test]
#[ignore = "not a test, but the entry point of child processes"]
fn entry_point() {
    match std::env::var(ROLE).unwrap_or_default().as_str() {
        "address space" => crate::api::resources::address_space(),
        "fork" => crate::concurrency::shared_threads::forking_child(),
        "idle stores" => crate::concurrency::shared_threads::idle_child(),
        "kill" => crate::crash::kill::child(),
        "kinds of work" => crate::disk_full::bounds::kinds_of_work(),
        "load" => crate::disk_full::bounds::child(),
        "many stores" => crate::api::resources::many_stores(),
        "power cut" => crate::crash::power_cut::child(),
        "real error" => crate::crash::real_errors::child(),
        "shadow" => crate::crash::shadow::child(),
        "slow merge" => crate::api::live_stats::child(),
        "writer" => crate::concurrency::openers::child(),
        // A run of the ignored tests.
        "" => {}
        other => panic!("there is no child {other:?}"),
    }
}
