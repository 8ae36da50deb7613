//! `count`: how many pairs a range has, and their bytes, in one snapshot.

use super::key_range;
use super::pairs::{Order, Pairs};
use crate::arguments::{Common, Count};
use crate::failure::Failure;
use crate::output::Output;
use crate::progress::KeysBar;
use serde_json::json;

/// Pairs between two updates of the progress bar.
const STEP: u64 = 1 << 14;

/// Counts, and prints the number.
pub fn run(common: &Common, asked: &Count) -> Result<(), Failure> {
    let range = key_range::parse(common, &asked.range)?;
    let db = common.open_to_read()?;
    let contents = asked.within.read(&db)?;
    let (mut count, mut key_bytes, mut value_bytes) = (0_u64, 0_u64, 0_u64);
    let mut output = Output::new();
    let pairs = range.map(|range| Pairs::new(contents, range, Order::Ascending)).transpose()?;
    let unmerged = match pairs {
        None => Ok(()),
        Some(mut pairs) => {
            let bar = KeysBar::new(db.stats().approximate_keys());
            while let Some((key, value)) = pairs.pair() {
                count += 1;
                key_bytes += key.len() as u64;
                value_bytes += value.len() as u64;
                if count.is_multiple_of(STEP) {
                    bar.show(count);
                }
                pairs.step()?;
            }
            bar.finish();
            pairs.finish()
        }
    };
    match common.json {
        true => output.line(json!({"pairs": count, "key_bytes": key_bytes, "value_bytes": value_bytes}))?,
        false => output.line(count)?,
    }
    output.finish()?;
    unmerged
}
