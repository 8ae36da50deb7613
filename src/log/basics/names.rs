//! The names of the log's files. Pure.

use crate::util::FileNumber;

/// The file that a failed sync leaves.
pub const POISON: &str = "POISON";

/// What kind of log file a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A segment.
    Segment,
    /// A former segment, kept for reuse.
    Free,
    /// A segment that is not finished.
    New,
    /// The shadow of some segment.
    Shadow,
}

/// The name of a file of the log.
pub fn file_name(number: FileNumber, role: Role) -> String {
    match role {
        Role::Segment => format!("{number}.log"),
        Role::Free => format!("{number}.free"),
        Role::New => format!("{number}.log.new"),
        Role::Shadow => format!("{number}.shadow"),
    }
}

/// Parses a name. `None` if it is not that of a log file.
pub fn parse_file_name(name: &str) -> Option<(FileNumber, Role)> {
    let (digits, extension) = name.split_once('.')?;
    let role = match extension {
        "log" => Role::Segment,
        "free" => Role::Free,
        "log.new" => Role::New,
        "shadow" => Role::Shadow,
        _ => return None,
    };
    let number = FileNumber(digits.parse().ok()?);
    (file_name(number, role) == name).then_some((number, role))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_other_names_are_rejected() {
        for role in [Role::Segment, Role::Free, Role::New, Role::Shadow] {
            for number in [1, 999_999, 1_000_000, u64::MAX] {
                let number = FileNumber(number);
                assert_eq!(parse_file_name(&file_name(number, role)), Some((number, role)));
            }
        }
        for name in ["", "LOCK", "1.log", "0000001.log", "+00001.log", "000001.branch", "000001.log.tmp", "000001"] {
            assert_eq!(parse_file_name(name), None, "{name}");
        }
    }
}
