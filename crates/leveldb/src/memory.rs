//! How much memory a store gets behind this interface.
//!
//! A LevelDB program expects some 16 MiB a store by default, and often opens several, so half of the machine, which is Alluvium's own
//! default, would be wrong here. A store gets `BASE`, with which it works well, and on top of it what the program has asked for beyond
//! LevelDB's defaults. Who cannot change the program sets `ALLUVIUM_MEMORY`.

use crate::status::Status;

/// LevelDB's default write buffer.
pub const WRITE_BUFFER: usize = 4 << 20;
/// LevelDB's default cache.
const CACHE: u64 = 8 << 20;
/// A store with LevelDB's defaults.
const BASE: u64 = 128 << 20;
/// A write buffer is at most a sixth of a store's memory, so as many bytes go with each byte of it.
const BUDGET_PER_WRITE_BUFFER: u64 = 6;

/// The memory of a store with a write buffer and a cache.
pub fn budget(write_buffer: u64, cache: Option<u64>) -> Result<u64, Status> {
    match std::env::var("ALLUVIUM_MEMORY") {
        Err(_) => Ok(asked_for(write_buffer, cache)),
        Ok(text) => parse(&text).ok_or_else(|| {
            Status::Invalid(format!(
                "the environment variable ALLUVIUM_MEMORY is {text:?}; expected a number of bytes such as 536870912, 512M or 2G"
            ))
        }),
    }
}

fn asked_for(write_buffer: u64, cache: Option<u64>) -> u64 {
    let more_buffer = write_buffer.saturating_sub(WRITE_BUFFER as u64).saturating_mul(BUDGET_PER_WRITE_BUFFER);
    let more_cache = cache.unwrap_or(CACHE).saturating_sub(CACHE);
    // The store's own limit.
    BASE.saturating_add(more_buffer).saturating_add(more_cache).min(64 << 40)
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
    fn what_a_program_asks_for_is_added() {
        assert_eq!(asked_for(WRITE_BUFFER as u64, None), BASE);
        assert_eq!(asked_for(100_000, Some(100)), BASE, "never less than it needs");
        assert_eq!(asked_for(64 << 20, Some(1 << 30)), BASE + 6 * (60 << 20) + (1 << 30) - CACHE);
        assert_eq!(asked_for(u64::MAX, Some(u64::MAX)), 64 << 40);
    }

    #[test]
    fn sizes_in_words() {
        assert_eq!(parse("1048576"), Some(1 << 20));
        assert_eq!(parse("512M"), Some(512 << 20));
        assert_eq!(parse("2gib"), Some(2 << 30));
        for wrong in ["", "M", "-1", "1T", "99999999999999G", "1 M"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
