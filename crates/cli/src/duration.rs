//! Conversions between durations and text. Pure functions.

use std::time::Duration;

/// The longest duration: one year, so that the sum of two cannot overflow a clock.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);

/// Parses a duration: digits, then ms, s, m, h, d or w, such as 30s, 10m or 1h. Several such parts are added: 1h30m.
/// Each has a smaller unit than the one before it.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let expected = || {
        "expected a time such as 30s, 10m or 1h30m: digits and one of the units ms, s, m, h, d and w, once or more \
         with the greatest unit first; more than zero and at most a year"
            .to_string()
    };
    let (mut rest, mut sum, mut larger) = (text, 0_u64, u64::MAX);
    while !rest.is_empty() {
        let (number, unit, behind) = split_part(rest).ok_or_else(expected)?;
        if unit >= larger {
            return Err(expected());
        }
        sum = number.checked_mul(unit).and_then(|part| sum.checked_add(part)).ok_or_else(expected)?;
        (rest, larger) = (behind, unit);
    }
    let duration = Duration::from_millis(sum);
    if duration.is_zero() || duration > LONGEST { Err(expected()) } else { Ok(duration) }
}

/// The first number of a duration, the milliseconds of its unit, and what follows.
fn split_part(text: &str) -> Option<(u64, u64, &str)> {
    let (digits, rest) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    let (unit, rest) = rest.split_at(rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len()));
    let milliseconds = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60 * 1000,
        "h" => 3600 * 1000,
        "d" => 24 * 3600 * 1000,
        "w" => 7 * 24 * 3600 * 1000,
        _ => return None,
    };
    Some((digits.parse().ok()?, milliseconds, rest))
}

/// Parses the seconds between two samples, with or without a fraction, such as 2 or 0.5.
pub fn parse_interval(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.1..=LONGEST.as_secs_f64()).contains(seconds));
    let expected = || "expected seconds such as 2 or 0.5, at least 0.1 and at most a year".to_string();
    seconds.map(Duration::from_secs_f64).ok_or_else(expected)
}

/// Formats a duration to the second: 1h02m03s.
pub fn format_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes) {
        (0, 0) => format!("{seconds}s"),
        (0, minutes) => format!("{minutes}m{seconds:02}s"),
        (hours, minutes) => format!("{hours}h{minutes:02}m{seconds:02}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::{format_duration, parse_duration, parse_interval};
    use std::time::Duration;

    #[test]
    fn times() {
        for (text, seconds) in [("30s", 30), ("10m", 600), ("1h", 3600), ("2d", 172_800), ("52w", 31_449_600)] {
            assert_eq!(parse_duration(text), Ok(Duration::from_secs(seconds)));
        }
        for (text, milliseconds) in [("1500ms", 1500), ("1h30m", 5_400_000), ("1m02s003ms", 62_003), ("0h1s", 1000)] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
        let wrong = ["", "0s", "5", "h", "-1s", "1.5h", "53w", "0ms", "1us", "999999999999d", "99999999999999999999s"];
        let wrong_parts = ["1h30", "30m1h", "1m1m", "1h 30m", "0h0m", "52w8d", "1hm", "h30m"];
        for bad in wrong.into_iter().chain(wrong_parts) {
            let error = parse_duration(bad).expect_err(bad);
            assert!(error.contains("units ms, s, m, h, d and w"), "{error}");
        }
        for (text, milliseconds) in [("0.1", 100), ("0.2", 200), ("2", 2000), ("1.5", 1500)] {
            assert_eq!(parse_interval(text), Ok(Duration::from_millis(milliseconds)));
        }
        for bad in ["", "0", "0.09", "-1", "nan", "inf", "1e300", "2s", "x"] {
            assert!(parse_interval(bad).is_err_and(|error| error.contains("at least 0.1")), "{bad}");
        }
        for (seconds, text) in [(0, "0s"), (59, "59s"), (61, "1m01s"), (3723, "1h02m03s")] {
            assert_eq!(format_duration(Duration::from_secs(seconds)), text);
        }
    }
}
