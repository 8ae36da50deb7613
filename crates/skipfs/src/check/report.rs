//! `Report`: what a check has found. Plain data.

/// What a check has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Regular files.
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Symbolic links, pipes, sockets and devices.
    pub others: u64,
    /// The sum of the sizes of all files.
    pub bytes: u64,
    /// The sum of what is allocated for them: without holes, in blocks of 4 KiB.
    pub allocated: u64,
    /// Inodes without names, which were in use when the file system was last closed or crashed. The next opening deletes
    /// them.
    pub orphans: Vec<u64>,
    /// What is wrong, a line each: the key, the path of the inode if there is one, what was expected, what was found.
    pub findings: Vec<String>,
}

impl Report {
    /// Whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.findings.is_empty()
    }
}
