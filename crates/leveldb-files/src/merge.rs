//! Several sources as one, in order: the newest version of a key first.

use crate::error::Result;
use crate::internal_key;
use crate::level::Level;
use crate::memory::Memory;

/// One source.
#[derive(Debug)]
pub enum Source {
    /// The logs.
    Memory(Memory),
    /// Tables.
    Level(Box<Level>),
}

impl Source {
    /// Moves to the next entry; false where there is none.
    pub fn advance(&mut self) -> Result<bool> {
        match self {
            Self::Memory(memory) => Ok(memory.advance()),
            Self::Level(level) => level.advance(),
        }
    }

    /// The key of the entry.
    pub fn key(&self) -> &[u8] {
        match self {
            Self::Memory(memory) => memory.key(),
            Self::Level(level) => level.key(),
        }
    }

    /// The value of the entry.
    pub fn value(&self) -> &[u8] {
        match self {
            Self::Memory(memory) => memory.value(),
            Self::Level(level) => level.value(),
        }
    }
}

/// The sources that have entries left, each on its next one.
#[derive(Debug, Default)]
pub struct Merge {
    sources: Vec<Source>,
}

impl Merge {
    /// Takes note of a source that stands on an entry.
    pub fn add(&mut self, source: Source) {
        self.sources.push(source);
    }

    /// Takes the source with the first entry out, to be moved on and added again. There are some dozen sources at most, so the least is
    /// looked for.
    pub fn take_first(&mut self) -> Option<Source> {
        let keys = self.sources.iter().map(Source::key).enumerate();
        let (at, _) = keys.min_by(|(_, one), (_, other)| internal_key::compare(one, other))?;
        Some(self.sources.swap_remove(at))
    }

    /// All that have entries left.
    pub fn sources(&self) -> &[Source] {
        &self.sources
    }
}
