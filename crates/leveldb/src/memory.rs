//! The memory budget of a store behind this interface.
//!
//! A LevelDB program expects some 16 MiB per store by default and often opens several, so Alluvium's own default, up to 1
//! GiB for all of them, would be wrong here. A store gets what LevelDB would use for the same options, two
//! write buffers and the cache, but at least `LEAST`, with which it works well. `ALLUVIUM_MEMORY` overrides this for
//! programs that cannot be changed.

use crate::status::Status;

/// LevelDB's default write buffer.
pub const WRITE_BUFFER: usize = 4 << 20;
/// LevelDB's default cache.
const CACHE: u64 = 8 << 20;
/// The smallest budget of a store.
const LEAST: u64 = 128 << 20;
/// The largest budget that the store itself accepts.
const MOST: u64 = 64 << 40;

/// The budget for a write buffer size and a cache size.
pub fn budget(write_buffer: u64, cache: Option<u64>) -> Result<u64, Status> {
    match std::env::var("ALLUVIUM_MEMORY") {
        Err(_) => Ok(for_options(write_buffer, cache)),
        Ok(text) => parse(&text).ok_or_else(|| {
            Status::Invalid(format!(
                "the environment variable ALLUVIUM_MEMORY is {text:?}; expected a number of bytes such as 536870912, 512M or 2G"
            ))
        }),
    }
}

fn for_options(write_buffer: u64, cache: Option<u64>) -> u64 {
    write_buffer.saturating_mul(2).saturating_add(cache.unwrap_or(CACHE)).clamp(LEAST, MOST)
}

fn parse(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|letter: char| !letter.is_ascii_digit());
    let unit = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "" => 1,
        "K" | "KB" | "KIB" => 1 << 10,
        "M" | "MB" | "MIB" => 1 << 20,
        "G" | "GB" | "GIB" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_are_leveldbs_but_not_too_small() {
        assert_eq!(for_options(WRITE_BUFFER as u64, None), LEAST);
        assert_eq!(for_options(100_000, Some(100)), LEAST);
        assert_eq!(for_options(64 << 20, Some(1 << 30)), (128 << 20) + (1 << 30));
        assert_eq!(for_options(u64::MAX, Some(u64::MAX)), MOST);
    }

    #[test]
    fn sizes_with_units() {
        assert_eq!(parse("1048576"), Some(1 << 20));
        assert_eq!(parse("512M"), Some(512 << 20));
        assert_eq!(parse("2gib"), Some(2 << 30));
        for wrong in ["", "M", "-1", "1T", "99999999999999G", "1 M"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
