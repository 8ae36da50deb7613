//! A violation in a history: its name in the literature, and the transactions that show it.

use super::history::{Action, By, Outcome, Transaction};
use std::fmt;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anomaly {
    /// Adya's name and the common name.
    pub name: String,
    pub story: Vec<String>,
}

impl Anomaly {
    /// An anomaly that a single transaction shows.
    pub fn of_one(name: &str, transaction: &Transaction, what: String) -> Self {
        Self { name: name.to_owned(), story: vec![Self::line(transaction), what] }
    }

    /// A transaction in one line.
    pub fn line(transaction: &Transaction) -> String {
        let actions: Vec<String> = transaction.actions.iter().map(ToString::to_string).collect();
        let Transaction { thread, name, call, ret, .. } = transaction;
        let how = if transaction.outcome == Outcome::Aborted { ", aborted" } else { "" };
        format!("thread {thread}, [{call}, {ret}] {name}{how}: {}", actions.join("; "))
    }
}

impl fmt::Display for Anomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name)?;
        self.story.iter().try_for_each(|line| write!(f, "\n  {line}"))
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Append(key, item) => write!(f, "append {item} to k{key}"),
            Self::Merge(key, item) => write!(f, "merge {item} into k{key}"),
            Self::DeleteRange(keys) => write!(f, "delete k{} to k{}", keys.start, keys.end - 1),
            Self::Read { key, list, by: By::Get } => write!(f, "get k{key} = {list:?}"),
            Self::Read { key, list, by: By::Range } => write!(f, "scan k{key} = {list:?}"),
            Self::Save => f.write_str("save"),
            Self::RollBack(to) => write!(f, "roll back to {to}"),
        }
    }
}
