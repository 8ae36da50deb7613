//! `scan`: prints the pairs of a range, in either order.

use super::key_range;
use crate::arguments::{Common, Scan};
use crate::failure::Failure;
use crate::output::{Output, PairForm};

/// Prints the pairs.
pub fn run(common: &Common, scan: &Scan) -> Result<(), Failure> {
    let range = key_range::parse(common, &scan.range)?;
    let db = common.open_to_read()?;
    let pairs = scan.within.read(&db)?;
    let mut output = Output::new();
    if let Some(range) = range {
        let form = PairForm::new(common.json, common.hex);
        let mut iter = pairs.range(range)?;
        let mut left = scan.limit.unwrap_or(u64::MAX);
        if scan.reverse {
            iter.seek_last()?
        } else {
            iter.seek_first()?
        }
        while left > 0 {
            let Some((key, value)) = iter.pair() else { break };
            output.pair(form, key, value)?;
            left -= 1;
            if scan.reverse { iter.step_back()? } else { iter.step()? }
        }
    }
    output.finish()
}
