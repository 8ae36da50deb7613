//! `scan`: prints the pairs of a range, in either order.

use super::key_range;
use super::pairs::{Order, Pairs};
use crate::arguments::{Common, Scan};
use crate::failure::Failure;
use crate::output::{Output, PairForm};

/// Prints the pairs.
pub fn run(common: &Common, scan: &Scan) -> Result<(), Failure> {
    let range = key_range::parse(common, &scan.range)?;
    let db = common.open_to_read()?;
    let contents = scan.within.read(&db)?;
    let mut output = Output::new();
    if let Some(range) = range {
        let form = PairForm::new(common.json, common.hex);
        let mut left = scan.limit.unwrap_or(u64::MAX);
        if left == 0 {
            return output.finish();
        }
        let order = if scan.reverse { Order::Descending } else { Order::Ascending };
        let mut pairs = Pairs::new(contents, range, order)?;
        while let Some((key, value)) = pairs.pair() {
            output.pair(form, key, value)?;
            left -= 1;
            if left == 0 {
                break;
            }
            pairs.step()?;
        }
        output.finish()?;
        return pairs.finish();
    }
    output.finish()
}
