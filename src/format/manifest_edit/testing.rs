//! Random numbers from a seed, and random edits that decode but fit no state. For tests here and in the layers above.

use super::*;
use crate::util::random::splitmix64;

/// SplitMix64.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        splitmix64(&mut self.0)
    }

    /// A number below `end`, which is not zero.
    pub fn below(&mut self, end: u64) -> u64 {
        self.bits() % end
    }

    /// True once in `of` times.
    pub fn once_in(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }

    /// A number of random magnitude.
    pub fn number(&mut self) -> u64 {
        let shift = self.below(64);
        self.bits() >> shift
    }

    /// Up to eleven random bytes.
    pub fn bytes(&mut self) -> Vec<u8> {
        let length = self.below(12);
        (0..length).map(|_| self.bits() as u8).collect()
    }

    /// Up to `most` things.
    pub fn list<T>(&mut self, most: u64, mut make: impl FnMut(&mut Self) -> T) -> Vec<T> {
        let length = self.below(most + 1);
        (0..length).map(|_| make(self)).collect()
    }

    /// A thing or none.
    pub fn option<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> Option<T> {
        if self.once_in(2) { Some(make(self)) } else { None }
    }
}

/// An edit with every field filled at random.
pub fn any_edit(random: &mut Random) -> ManifestEdit {
    ManifestEdit {
        branches_added: random.list(2, any_branch),
        branches_dropped: random.list(3, any_file),
        nodes: random.list(2, any_node),
        nodes_dropped: random.list(2, |random| NodeId(random.number())),
        root: random.option(|random| NodeId(random.number())),
        incorporated: random.option(any_number),
        log_recovered_earlier: random.list(1, any_recovery),
        log_recovered: random.option(any_recovery),
        log_epochs_from: random.option(Random::number),
        keyspaces: random.list(2, any_keyspace),
        next_file: random.option(any_file),
        next_node: random.option(|random| NodeId(random.number())),
        next_bundle: random.option(|random| BundleId(random.number())),
        log_files_from: random.option(|random| FileNumber(random.number())),
        log_segments_added: random.list(2, any_file),
        log_segments_dropped: random.list(2, any_file),
        log_synced: random.option(any_number),
        maplets_added: random.list(2, any_maplet),
        maplets_dropped: random.list(2, any_file),
        branch_bytes: random.option(Random::number),
        levels: random.option(any_levels),
        runs: random.list(2, any_run),
        next_run: random.option(|random| RunId(random.number())),
        user_bytes: random.option(Random::number),
        quiet_bytes: random.option(Random::number),
        buffered_added: random.list(2, any_buffered),
        buffered_dropped: random.list(2, any_file),
        ingested: random.option(any_number),
    }
}

fn any_buffered(random: &mut Random) -> BufferedMeta {
    BufferedMeta {
        meta: any_branch(random),
        parents: random.list(2, |random| ParentItems {
            parent: any_file(random),
            runs: random.list(3, |random| ItemRun { skipped: random.number(), count: random.number() }),
        }),
    }
}

fn any_levels(random: &mut Random) -> LevelsShape {
    LevelsShape {
        size_ratio: random.number() as u32,
        runs_per_level: random.number() as u32,
        level0_runs: random.number() as u32,
        merge_percent: random.number() as u32,
        file_bytes: random.number(),
        base_bytes: random.number(),
        filter_bits: random.number() as u32,
        filter_bits_above: random.number() as u32,
        max_skip: random.number() as u32,
        skip_runs: random.number() as u32,
        buffer_bytes: random.number(),
    }
}

fn any_run(random: &mut Random) -> RunChange {
    RunChange {
        id: RunId(random.number()),
        level: random.number() as u32,
        dropped: random.list(3, any_file),
        added: random.list(3, any_file),
    }
}

fn any_file(random: &mut Random) -> FileNumber {
    FileNumber(random.number())
}

fn any_number(random: &mut Random) -> SequenceNumber {
    SequenceNumber(random.number())
}

fn any_branch(random: &mut Random) -> BranchMeta {
    BranchMeta {
        file: any_file(random),
        bytes: random.number(),
        key_min: random.bytes(),
        key_max: random.bytes(),
        number_min: any_number(random),
        number_max: any_number(random),
        entries: random.number(),
        tombstones: random.number(),
        distinct_keys: random.number(),
        range_tombstones: random.number(),
        open_ended: random.number().is_multiple_of(2),
        value_files: random.list(3, any_file),
    }
}

fn any_node(random: &mut Random) -> NodeImage {
    NodeImage {
        id: NodeId(random.number()),
        height: random.number() as u32,
        lower: random.bytes(),
        upper: random.option(Random::bytes),
        pivots: random.list(3, |random| PivotImage {
            lower: random.bytes(),
            child: NodeId(random.number()),
            first_active: random.number() as u32,
        }),
        bundles: random.list(3, |random| BundleImage {
            id: BundleId(random.number()),
            compacted: random.once_in(2),
            branches: random.list(3, any_file),
        }),
        shares: random
            .list(3, |random| random.list(3, |random| ShareImage { branch: any_file(random), bytes: random.number() })),
    }
}

fn any_maplet(random: &mut Random) -> MapletMeta {
    MapletMeta {
        file: any_file(random),
        pages: random.number() as u32,
        lower: random.bytes(),
        upper: random.option(Random::bytes),
        columns: random.list(3, |random| MapletColumn { entries: random.number(), branches: random.list(3, any_file) }),
    }
}

fn any_recovery(random: &mut Random) -> LogRecovered {
    LogRecovered {
        epoch: random.number(),
        cut: any_number(random),
        skipped: random.list(3, |random| (any_number(random), any_number(random))),
        next_number: any_number(random),
    }
}

fn any_keyspace(random: &mut Random) -> KeyspaceRecord {
    KeyspaceRecord {
        id: KeyspaceId(random.number() as u32),
        name: random.list(5, |random| char::from_u32(random.below(0xd800) as u32).unwrap()).into_iter().collect(),
        comparator: "bytewise".to_owned(),
        merge_operator: random.list(4, |random| char::from(b'a' + random.below(26) as u8)).into_iter().collect(),
    }
}
