//! The exact versions of the crates that were built in, from the lock file.

/// The lock file of this build.
const LOCK: &str = include_str!("../../../../Cargo.lock");

/// The version of a crate; "unknown" if the lock file does not contain it.
pub fn of(name: &str) -> &'static str {
    in_lock(LOCK, name).unwrap_or("unknown")
}

fn in_lock<'a>(lock: &'a str, name: &str) -> Option<&'a str> {
    let wanted = format!("name = \"{name}\"");
    let mut lines = lock.lines().skip_while(|line| *line != wanted);
    lines.next()?;
    lines.next()?.strip_prefix("version = \"")?.strip_suffix('"')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_that_of_the_named_package() {
        let lock = "[[package]]\nname = \"a-b\"\nversion = \"1.0\"\n\n[[package]]\nname = \"a\"\nversion = \"2.5.0\"\n";
        assert_eq!(in_lock(lock, "a"), Some("2.5.0"));
        assert_eq!(in_lock(lock, "b"), None);
    }

    #[test]
    fn the_rivals_are_in_the_lock_file() {
        for name in ["fjall", "heed", "redb", "sled", "rocksdb", "librocksdb-sys"] {
            assert_ne!(of(name), "unknown", "{name}");
        }
    }
}
