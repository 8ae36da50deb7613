//! The path of SplinterDB's shared library: from the command line, else from an environment variable, which children
//! inherit.

use std::path::PathBuf;
use std::sync::OnceLock;

/// The variable.
pub const VARIABLE: &str = "SPLINTERDB_LIB";

static NAMED: OnceLock<PathBuf> = OnceLock::new();

/// Takes the path of the command line. The first call counts.
pub fn name(path: Option<PathBuf>) {
    if let Some(path) = path {
        NAMED.get_or_init(|| path);
    }
}

/// The given path, whether there is such a file or not.
pub fn path() -> Option<PathBuf> {
    NAMED.get().cloned().or_else(|| std::env::var_os(VARIABLE).map(PathBuf::from))
}
