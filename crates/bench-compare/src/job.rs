//! What the harness sends to a child process, and what the child reports: JSON, one object per line.

use alluvium_bench::{Outcome, Step};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// One engine's turn: a fresh store and steps on it, one after the other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// The engine's name.
    pub engine: String,
    /// A directory for its store that does not exist yet; removed at the end.
    pub directory: PathBuf,
    /// The limit of the whole process, page cache included, if limits can be set.
    pub memory: u64,
    /// Bytes of keys and values, for engines that make a file of fixed size.
    pub data_bytes: u64,
    /// Threads that an engine may use in the background, if they can be set.
    pub background_threads: usize,
    /// The workloads.
    pub steps: Vec<Step>,
}

/// A line from the child.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "message", rename_all = "snake_case")]
pub enum Message {
    /// A workload is done.
    Measured(Box<Measured>),
    /// All are done, and the store is removed.
    Finished,
    /// An error; nothing follows.
    Failed {
        /// The error's text.
        error: String,
    },
}

/// A workload's figures, with what the engine reports about itself and how much the run was disturbed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// The figures.
    pub outcome: Outcome,
    /// The engine's version.
    pub version: String,
    /// The engine's settings.
    pub settings: Vec<(String, String)>,
    /// Processor time of other programs meanwhile, in percent of the machine's.
    pub other_load_percent: f64,
}

impl Message {
    /// Parses the message in a line; `None` if it is none: an engine's library may print to standard output, too.
    pub fn parse(line: &str) -> Option<Self> {
        line.starts_with('{').then(|| serde_json::from_str(line).ok())?
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvium_bench::{Settings, catalogue};

    fn job() -> Job {
        let settings = Settings { num: Some(1000), threads: 2, ..Settings::default() };
        let step = |name| Step { workload: catalogue::named(name, &settings).unwrap(), settings: settings.clone() };
        Job {
            engine: "alluvium".into(),
            directory: "store".into(),
            memory: 1 << 20,
            data_bytes: 108_000,
            background_threads: 2,
            steps: vec![step("fillseq"), step("a")],
        }
    }

    #[test]
    fn a_job_comes_back() {
        let text = serde_json::to_string(&job()).unwrap();
        assert_eq!(serde_json::from_str::<Job>(&text).unwrap(), job());
        assert!(!text.contains('\n'), "one line");
    }

    #[test]
    fn messages_come_back() {
        let measured = Measured {
            outcome: Outcome { workload: "a".into(), ops: 7, write_amp: Some(1.5), ..Outcome::default() },
            version: "1".into(),
            settings: vec![("cache".into(), "1 MiB".into())],
            other_load_percent: 12.5,
        };
        for message in [
            Message::Measured(Box::new(measured)),
            Message::Finished,
            Message::Failed { error: "no \"disk\"\n".into() },
        ] {
            let line = serde_json::to_string(&message).unwrap();
            assert!(!line.contains('\n'));
            assert_eq!(Message::parse(&line), Some(message));
        }
    }

    #[test]
    fn what_a_library_prints_is_no_message() {
        for line in ["", "opened store", "{", "{\"message\":\"unheard of\"}", "[1]"] {
            assert_eq!(Message::parse(line), None, "{line}");
        }
    }
}
