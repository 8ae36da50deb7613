//! One module per command, or for a few related commands. Each takes the common arguments and its own and returns `Ok`
//! or a `Failure`; none exits the process.

mod backup;
mod bench;
mod changes;
mod checkpoint;
mod compact;
mod completions;
mod convert;
mod count;
mod destroy;
mod dump;
mod figures;
mod file_system;
mod import;
mod key_range;
mod keyspaces;
mod load;
mod loader;
mod pairs;
mod point;
mod prometheus;
mod repair;
mod scan;
mod shell;
mod soak;
mod stat;
mod stat_watch;
mod verify;

use crate::arguments::{Arguments, Command};
use crate::failure::Failure;
use alluvium::Goal;

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let common = &arguments.common;
    match &arguments.command {
        Command::Put(put) => point::put(common, put),
        Command::Get(get) => point::get(common, get),
        Command::Delete(delete) => point::delete(common, delete),
        Command::Merge(merge) => point::merge(common, merge),
        Command::Keyspaces(keyspaces) => keyspaces::run(common, keyspaces),
        Command::Scan(scan) => scan::run(common, scan),
        Command::Count(asked) => count::run(common, asked),
        Command::Load(load) => load::run(common, load),
        Command::Import(import) => import::run(common, import),
        Command::Stat(asked) => stat::run(common, asked),
        Command::Compact(asked) => compact::run(common, &asked.range, Goal::Space),
        Command::Optimize(asked) => compact::run(common, &asked.range, Goal::Reads),
        Command::Verify(verify) => verify::run(common, verify),
        Command::Repair(_) => repair::run(common),
        Command::Convert(asked) => convert::run(common, asked),
        Command::Changes(asked) => changes::run(common, asked),
        Command::Checkpoint(asked) => checkpoint::run(common, asked),
        Command::Backup(asked) => backup::run(common, asked),
        Command::Dump(dump) => dump::run(common, dump),
        Command::Destroy(destroy) => destroy::run(common, destroy),
        Command::Mkfs(mkfs) => file_system::mkfs(common, mkfs),
        Command::Mount(mount) => file_system::mount(common, mount),
        Command::Unmount(unmount) => file_system::unmount(common, unmount),
        Command::Check(check) => file_system::check(common, check),
        Command::Bench(bench) => bench::run(common, bench),
        Command::Soak(soak) => soak::run(common, soak),
        Command::Shell(asked) => shell::run(common, asked),
        Command::Completions(asked) => completions::run(asked),
    }
}
