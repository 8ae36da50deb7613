//! Why a command fails, and the exit code for it.

use crate::input::InputError;
use std::fmt;
use std::io;

/// Why a command failed.
#[derive(Debug)]
pub enum Failure {
    /// `get` found no key. Not an error, but it has its own exit code.
    Absent,
    /// The store returned an error.
    Store(alluvium::Error),
    /// Files are damaged; the damage is already reported.
    Damaged {
        /// The number of damaged places.
        places: u64,
    },
    /// Repair could not recover everything; the losses are already reported.
    Lost {
        /// The number of reported losses.
        losses: u64,
    },
    /// An invalid argument that only the command itself can detect.
    Usage(String),
    /// Input cannot be read or is malformed.
    Input(InputError),
    /// Another store's directory cannot be read or is malformed.
    Source {
        /// What is wrong.
        message: String,
        /// Whether data there is damaged.
        is_damaged: bool,
    },
    /// A soak found that the store violated a guarantee.
    Broken(String),
    /// Output cannot be written. A closed pipe is not a failure: the command exits silently.
    Output(io::Error),
}

impl Failure {
    /// The exit code, as `--help` lists them.
    pub fn code(&self) -> u8 {
        match self {
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => 0,
            Self::Absent => 1,
            Self::Store(alluvium::Error::Corruption { .. }) | Self::Damaged { .. } | Self::Lost { .. } => 3,
            Self::Source { is_damaged: true, .. } => 3,
            Self::Broken(_) => 4,
            Self::Store(_) | Self::Usage(_) | Self::Input(_) | Self::Source { .. } | Self::Output(_) => 2,
        }
    }

    /// The message for standard error; `None` if the exit code says everything.
    pub fn message(&self) -> Option<String> {
        match self {
            Self::Absent => None,
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => None,
            Self::Output(error) => Some(format!("cannot write the output: {error}")),
            Self::Store(error) => Some(error.to_string()),
            Self::Damaged { places } => {
                let places =
                    if *places == 1 { "1 damaged place".to_string() } else { format!("{places} damaged places") };
                Some(format!("{places}; `alluvium repair` recovers what can be recovered"))
            }
            Self::Lost { losses: 1 } => Some("the store is consistent again; 1 loss is listed".to_string()),
            Self::Lost { losses } => Some(format!("the store is consistent again; {losses} losses are listed")),
            Self::Usage(text) | Self::Source { message: text, .. } | Self::Broken(text) => Some(text.clone()),
            Self::Input(error) => Some(error.to_string()),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message().unwrap_or_default())
    }
}

impl From<alluvium_leveldb_files::Error> for Failure {
    fn from(error: alluvium_leveldb_files::Error) -> Self {
        Self::Source { message: error.to_string(), is_damaged: error.is_damage() }
    }
}

impl From<alluvium::Error> for Failure {
    fn from(error: alluvium::Error) -> Self {
        Self::Store(error)
    }
}

/// Errors of a benchmark: the store's own errors keep their exit codes.
impl From<Box<dyn std::error::Error + Send + Sync>> for Failure {
    fn from(error: Box<dyn std::error::Error + Send + Sync>) -> Self {
        match error.downcast::<alluvium::Error>() {
            Ok(error) => Self::Store(*error),
            Err(error) => Self::Usage(error.to_string()),
        }
    }
}

impl From<InputError> for Failure {
    fn from(error: InputError) -> Self {
        Self::Input(error)
    }
}
