//! Helpers of several tests: a small random generator, options with tiny budgets, checks of whole stores, skipped
//! tests.

pub mod child;
pub mod disks;
pub mod shared;

use alluvium::merge_operators::Append;
use alluvium::storage::Storage;
use alluvium::{Db, Depth, DiskComponent, LevelsOptions, MergeOperator, Options};
use std::sync::Arc;

/// Appends operands as `Append` does, but cannot join two of them.
pub struct Words;

impl MergeOperator for Words {
    fn name(&self) -> &str {
        "test.words"
    }

    fn full_merge(&self, key: &[u8], base: Option<&[u8]>, operands: &[&[u8]], out: &mut Vec<u8>) -> Result<(), String> {
        Append.full_merge(key, base, operands, out)
    }
}

/// Replaces the value by the newest operand, so that a merge does what a put does.
pub struct Last {
    /// Whether it can join two operands.
    pub joins: bool,
}

impl MergeOperator for Last {
    fn name(&self) -> &str {
        "test.last"
    }

    fn full_merge(&self, _: &[u8], _: Option<&[u8]>, operands: &[&[u8]], out: &mut Vec<u8>) -> Result<(), String> {
        out.extend_from_slice(operands.last().ok_or("there is no operand")?);
        Ok(())
    }

    fn partial_merge(&self, _: &[u8], _: &[u8], newer: &[u8], out: &mut Vec<u8>) -> bool {
        out.extend_from_slice(newer);
        self.joins
    }
}

/// SplitMix64: small, with equal numbers for equal seeds on every machine.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.next() as u8).collect()
    }
}

/// A budget so small that a few thousand writes reach a trunk of three levels.
pub fn tiny() -> Options {
    Options::new().memory_budget(320 << 10).background_threads(2)
}

/// The same without background syncs, for tests that sync explicitly.
pub fn tiny_unsynced() -> Options {
    tiny().sync_interval(None)
}

/// Levels so small that several form with little data: with one run a leveled store, with more a tiered one.
pub fn tiny_levels(runs_per_level: u32) -> DiskComponent {
    let (file_bytes, base_level_bytes) = (Some(8 << 10), Some(48 << 10));
    let sizes =
        LevelsOptions::new().size_ratio(3).level0_runs(3).file_bytes(file_bytes).base_level_bytes(base_level_bytes);
    DiskComponent::Levels(sizes.runs_per_level(runs_per_level))
}

/// The same with one run and with keys that skip levels.
pub fn tiny_skip() -> DiskComponent {
    let DiskComponent::Levels(levels) = tiny_levels(1) else { unreachable!("`tiny_levels` has levels") };
    DiskComponent::Levels(levels.max_skip(2).skip_runs(3))
}

/// The same with keys that wait in files and never in memory.
pub fn tiny_skip_in_files() -> DiskComponent {
    let DiskComponent::Levels(levels) = tiny_skip() else { unreachable!("`tiny_skip` has levels") };
    DiskComponent::Levels(levels.buffer_bytes(0))
}

/// A number from the environment, for longer runs; otherwise the default.
pub fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Verifies an open store.
pub fn expect_sound(db: &Db) {
    let found = db.verify_with(Depth::Deep, &mut |_| ()).unwrap();
    assert!(found.is_valid(), "{:#?}", found.damage);
}

/// Verifies the files of a closed store. Returns the unreferenced ones. There are none if background work had finished
/// and no reader prevented their removal.
pub fn expect_sound_closed(storage: &Arc<dyn Storage>) -> Vec<String> {
    let found = Db::verify_closed_with(Arc::clone(storage), Depth::Deep, &mut |_| ()).unwrap();
    assert!(found.is_valid(), "{:#?}", found.damage);
    found.unreferenced
}

/// Reports why a test cannot run here. In CI that is a failure: everything that the tests need is installed there.
pub fn skip(what: &str) {
    assert!(std::env::var_os("CI").is_none(), "skipped, which is a failure in CI: {what}");
    println!("SKIPPED: {what}");
}
