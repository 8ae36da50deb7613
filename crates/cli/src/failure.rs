//! Why a command fails, and the exit code for it.

use crate::input::InputError;
use alluvium::Error;
use std::fmt;
use std::io;

/// Why a command failed.
#[derive(Debug)]
pub enum Failure {
    /// `get` found no key. Not an error, but it has its own exit code.
    Absent,
    /// `scan` or `dump` left out keys whose operands cannot be merged; the first ones are already reported.
    Unmerged {
        /// The number of keys.
        keys: u64,
    },
    /// The store returned an error.
    Store(alluvium::Error),
    /// Files are damaged; the damage is already reported.
    Damaged {
        /// The number of damaged places.
        places: u64,
    },
    /// Backups are damaged; the damage is already reported.
    DamagedBackups {
        /// The number of damaged places.
        places: u64,
    },
    /// A file system contradicts itself; the findings are already reported.
    Findings {
        /// Their number.
        count: u64,
    },
    /// Another process has failed, and has said why.
    Reported {
        /// Its exit code.
        code: u8,
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
            Self::Absent | Self::Unmerged { .. } => 1,
            Self::Store(alluvium::Error::Corruption { .. }) | Self::Damaged { .. } | Self::Lost { .. } => 3,
            Self::DamagedBackups { .. } => 3,
            Self::Source { is_damaged: true, .. } | Self::Findings { .. } => 3,
            Self::Reported { code } => *code,
            Self::Broken(_) => 4,
            Self::Store(_) | Self::Usage(_) | Self::Input(_) | Self::Source { .. } | Self::Output(_) => 2,
        }
    }

    /// The message for standard error; `None` if the exit code says everything.
    pub fn message(&self) -> Option<String> {
        match self {
            Self::Absent | Self::Reported { .. } => None,
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => None,
            Self::Output(error) => Some(format!("cannot write the output: {error}")),
            Self::Unmerged { keys } => {
                let keys = if *keys == 1 { "1 key was".to_string() } else { format!("{keys} keys were") };
                Some(format!("{keys} left out, because operands cannot be merged; everything else was printed"))
            }
            Self::Store(error) => Some(message_of(error)),
            Self::Damaged { places } => {
                let places =
                    if *places == 1 { "1 damaged place".to_string() } else { format!("{places} damaged places") };
                Some(format!("{places}; `alluvium repair` recovers what can be recovered"))
            }
            Self::DamagedBackups { places } => {
                let places =
                    if *places == 1 { "1 damaged place".to_string() } else { format!("{places} damaged places") };
                Some(format!("{places}; `backup create --check-shared` copies files again that the store still has"))
            }
            Self::Findings { count } => {
                let count = if *count == 1 { "1 finding".to_string() } else { format!("{count} findings") };
                Some(format!("{count}: the file system is damaged; `alluvium verify` checks the files of the store"))
            }
            Self::Lost { losses: 1 } => Some("the store is consistent again; 1 loss is listed".to_string()),
            Self::Lost { losses } => Some(format!("the store is consistent again; {losses} losses are listed")),
            Self::Usage(text) | Self::Source { message: text, .. } | Self::Broken(text) => Some(text.clone()),
            Self::Input(error) => Some(error.to_string()),
        }
    }
}

/// The message of an error of the store, with commands and flags in the place of the library's calls and options.
pub fn message_of(error: &Error) -> String {
    match error {
        Error::MergeOperands { operator, key, .. }
            if !operator.is_empty() && alluvium::merge_operators::named(operator).is_none() =>
        {
            let key = key.escape_ascii();
            format!(
                "the key \"{key}\" has operands of the merge operator {operator:?}, which the command line does not have: \
                 only a program with it can read the value; `put` and `delete` replace it"
            )
        }
        Error::MergeOperands { operator, key, .. } if operator.is_empty() => {
            let key = key.escape_ascii();
            format!("the key \"{key}\" has operands, but no merge operator: `merge --operator` chooses one")
        }
        Error::NoStore { path, .. } if matches!(path.try_exists(), Ok(false)) => {
            format!(
                "no store at {}: nothing is there; `put`, `load`, `import` and `keyspaces create` create one, and \
                 `mkfs` one with a file system",
                path.display()
            )
        }
        Error::Mismatch { path, what: "merge operator", stored, asked } => {
            let path = path.display();
            format!(
                "the store at {path} has the merge operator {stored:?}, not {asked:?}; leave --operator out to use it"
            )
        }
        Error::KeyspaceMismatch { keyspace, what, stored, asked } => {
            let (flag, change) = match *what {
                "merge operator" => ("operator", ""),
                what => (what, ", or change it with `keyspaces set`"),
            };
            format!(
                "the keyspace {keyspace:?} has the {what} {stored:?}, not {asked:?}; leave --{flag} out to take what is \
                 stored{change}"
            )
        }
        other => in_words_of_commands(&other.to_string()),
    }
}

/// What the texts of some errors name, and what that is on the command line.
const WORDS: [(&str, &str); 12] = [
    (", and `create_if_missing` is not set", "; `put`, `load`, `import` and `keyspaces create` create a store"),
    ("`disk_component` asks for", "--component asks for"),
    ("`disk_component` unset (on the command line --component)", "--component out"),
    ("(`Db::convert`, `alluvium convert`)", "with `convert`"),
    ("open it with `Options::merge_operator`", "choose one with `merge --operator`"),
    ("open it with `Options::change_retention`", "`alluvium changes keep` makes it keep what is written from then on"),
    ("create it with `KeyspaceOptions::merge_operator`", "choose one with `merge --operator`"),
    (
        "the default keyspace has the options of the store (`Options`), and none of `KeyspaceOptions`",
        "the default keyspace has no options of its own; `merge --operator` chooses its merge operator",
    ),
    ("; `update` reads and writes a value in one step", ""),
    ("`clear` empties it", "`keyspaces clear default` empties it"),
    ("memory_budget is", "--memory is"),
    ("invalid argument: ", ""),
];

fn in_words_of_commands(text: &str) -> String {
    WORDS.iter().fold(text.to_owned(), |text, (library, command)| text.replace(library, command))
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

/// Errors of a file system: the store's own errors keep their messages and exit codes.
impl From<skipfs::FsError> for Failure {
    fn from(error: skipfs::FsError) -> Self {
        let text = if error.detail().is_empty() { error.to_string() } else { error.detail().to_string() };
        let is_damaged = error.is_damage();
        match error.into_store_error().map(|error| error.downcast::<alluvium::Error>()) {
            Ok(Ok(error)) => Self::Store(*error),
            _ => Self::Source { message: text, is_damaged },
        }
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
