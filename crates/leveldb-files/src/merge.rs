//! Merges several sources in order, the newest version of a key first.

use crate::error::Result;
use crate::internal_key;
use crate::level::Level;
use crate::memory::Memory;

/// A source of entries.
#[derive(Debug)]
pub enum Source {
    /// The logs.
    Memory(Memory),
    /// Tables.
    Level(Box<Level>),
}

impl Source {
    /// Moves to the next entry; false if there is none.
    pub fn advance(&mut self) -> Result<bool> {
        match self {
            Self::Memory(memory) => Ok(memory.advance()),
            Self::Level(level) => level.advance(),
        }
    }

    /// Returns the key of the entry.
    pub fn key(&self) -> &[u8] {
        match self {
            Self::Memory(memory) => memory.key(),
            Self::Level(level) => level.key(),
        }
    }

    /// Returns the value of the entry.
    pub fn value(&self) -> &[u8] {
        match self {
            Self::Memory(memory) => memory.value(),
            Self::Level(level) => level.value(),
        }
    }
}

/// The sources that have entries left, each at its next one.
#[derive(Debug, Default)]
pub struct Merge {
    sources: Vec<Source>,
}

impl Merge {
    /// Adds a source that is positioned on an entry.
    pub fn add(&mut self, source: Source) {
        self.sources.push(source);
    }

    /// Removes and returns the source with the first entry, to be advanced and added again. There are at most a few
    /// dozen sources, so a linear search suffices.
    pub fn take_first(&mut self) -> Option<Source> {
        let keys = self.sources.iter().map(Source::key).enumerate();
        let (at, _) = keys.min_by(|(_, one), (_, other)| internal_key::compare(one, other))?;
        Some(self.sources.swap_remove(at))
    }

    /// Returns all sources that have entries left.
    pub fn sources(&self) -> &[Source] {
        &self.sources
    }
}
