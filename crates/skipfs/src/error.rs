//! `FsError`: an error number of the system, and what is behind it. Any thread.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;

/// `Result` with the error of a file system.
pub type FsResult<T> = Result<T, FsError>;

/// What a request returns instead of its result.
///
/// The number is what the system call returns. The detail is for people: it names what the store said, or which record
/// is damaged.
#[derive(Debug)]
pub struct FsError {
    errno: i32,
    detail: Cow<'static, str>,
    source: Option<Box<dyn Error + Send + Sync>>,
    is_damage: bool,
}

impl FsError {
    /// An error with nothing to say beyond its number.
    pub fn new(errno: i32) -> Self {
        Self { errno, detail: Cow::Borrowed(""), source: None, is_damage: false }
    }

    /// An error with an explanation.
    pub fn with_detail(errno: i32, detail: impl Into<Cow<'static, str>>) -> Self {
        Self { errno, detail: detail.into(), source: None, is_damage: false }
    }

    /// An error of the store below.
    pub fn of_store(errno: i32, source: impl Error + Send + Sync + 'static) -> Self {
        Self { errno, detail: Cow::Borrowed("the store"), source: Some(Box::new(source)), is_damage: false }
    }

    /// `EIO`: a record is not what it should be.
    pub fn damaged(key: &[u8], what: impl fmt::Display) -> Self {
        let what = format!("the record of key \"{}\" is damaged: {what}", key.escape_ascii());
        Self { is_damage: true, ..Self::with_detail(libc::EIO, what) }
    }

    /// The error of the store below, if this is one.
    ///
    /// # Errors
    /// Itself, if it is another one.
    pub fn into_store_error(self) -> Result<Box<dyn Error + Send + Sync>, Self> {
        match self {
            Self { source: Some(source), .. } => Ok(source),
            other => Err(other),
        }
    }

    /// Whether a record of the file system is damaged.
    pub fn is_damage(&self) -> bool {
        self.is_damage
    }

    /// The explanation; empty if there is none.
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// The number of the error, as in `errno`.
    pub fn errno(&self) -> i32 {
        self.errno
    }
}

impl fmt::Display for FsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", std::io::Error::from_raw_os_error(self.errno))?;
        if !self.detail.is_empty() {
            write!(f, ": {}", self.detail)?;
        }
        self.source.as_ref().map_or(Ok(()), |source| write!(f, ": {source}"))
    }
}

/// The text of an error is complete, so it has no `source`: programs that print errors with their sources print nothing
/// twice.
impl Error for FsError {}

impl From<FsError> for std::io::Error {
    fn from(error: FsError) -> Self {
        Self::from_raw_os_error(error.errno)
    }
}
