//! Counting runs without grouping branches.

use super::rig::{Random, Rig, number_key, small_options};
use crate::branch::Branch;
use crate::disk::runs::run::{count, group, runs_begun};
use crate::disk::trunk::TrunkOptions;
use crate::format::manifest_edit::BranchMeta;
use crate::util::FileNumber;
use crate::util::sync::Arc;

/// Regression: the picker counted the runs of all ranges of bundles one by one, in time cubic in the bundles. A small
/// store under load spent nine tenths of its processor time there.
#[test]
fn the_runs_of_neighbouring_bundles_are_a_sum() {
    let rig = Rig::new(small_options(4096));
    let mut random = Random(11);
    for _ in 0..300 {
        let mut branch = |file: u64| {
            let (min, max) = (random.below(30) as u8, random.below(8) as u8);
            let (key_min, key_max) = (vec![min], vec![min + max]);
            Branch::new(&rig.context, BranchMeta { file: FileNumber(file), key_min, key_max, ..BranchMeta::default() })
        };
        let sizes = [3, 1, 2, 4, 1, 1];
        let bundles: Vec<Vec<Arc<Branch>>> = sizes.map(|size| (0..size).map(&mut branch).collect()).into();
        let begun = runs_begun(bundles.iter().map(|bundle| &bundle[..]));
        for from in 0..bundles.len() {
            assert_eq!(count(&bundles[from]), group(&bundles[from]).len());
            for to in from + 1..=bundles.len() {
                let sum = begun[from].alone + begun[from + 1..to].iter().map(|next| next.after).sum::<usize>();
                let expected = group(bundles[from..to].iter().flatten()).len();
                assert_eq!(sum, expected, "{from}..{to} of {begun:?}");
            }
        }
    }
}

/// Regression: a thousand puts by a thousand processes left a file for each. In ascending order of keys these are one
/// run, which no merge touched; and once one did, it took them over by reference.
#[test]
fn many_tiny_files_are_merged_even_if_they_are_one_run() {
    for scatter in [1, 7919] {
        let mut rig = Rig::new(TrunkOptions::new(4 << 20));
        for number in 0..200 {
            rig.incorporate(vec![(number_key(number * scatter % 1009), Some(vec![1; 100]))]);
            rig.work();
        }
        let branches = rig.tree.branches().len();
        assert!(branches <= 16, "{branches} files of 200 pairs");
        assert!(rig.writes_per_entry() < 20.0, "an entry is written {} times", rig.writes_per_entry());
        rig.check_reads(&mut Random(3), 100);
    }
}
