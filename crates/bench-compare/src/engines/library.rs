//! Where SplinterDB's shared library is: what the command line said, else an environment variable, which children inherit.

use std::path::PathBuf;
use std::sync::OnceLock;

/// The variable.
pub const VARIABLE: &str = "SPLINTERDB_LIB";

static NAMED: OnceLock<PathBuf> = OnceLock::new();

/// Takes what the command line said. The first word counts.
pub fn name(path: Option<PathBuf>) {
    if let Some(path) = path {
        NAMED.get_or_init(|| path);
    }
}

/// The path that was named, whether there is such a file or not.
pub fn path() -> Option<PathBuf> {
    NAMED.get().cloned().or_else(|| std::env::var_os(VARIABLE).map(PathBuf::from))
}
