//! An engine kind as the benchmark's sessions open it: the same memory limit and data size for all. Keeps what the
//! engine reports about itself for the results.

use super::{Kind, Setting, Setup};
use alluvium_bench::engine::{Engine, EngineOptions, Factory, Result};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// What an engine reported when it was opened.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// Its version.
    pub version: String,
    /// Its settings.
    pub settings: Vec<Setting>,
}

/// Opens stores of one kind.
pub struct KindFactory {
    kind: &'static Kind,
    data_bytes: u64,
    background_threads: usize,
    about: Mutex<About>,
}

impl KindFactory {
    /// Of this kind, for this many bytes of keys and values.
    pub fn new(kind: &'static Kind, data_bytes: u64, background_threads: usize) -> Self {
        Self { kind, data_bytes, background_threads, about: Mutex::default() }
    }

    /// What the engine reported when it was last opened.
    pub fn about(&self) -> About {
        self.about.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Factory for KindFactory {
    fn name(&self) -> &str {
        self.kind.name
    }

    fn open(&self, directory: &Path, options: &EngineOptions) -> Result<Box<dyn Engine>> {
        let open = self.kind.open.ok_or("the engine is not built in")?;
        let setup = Setup {
            directory: directory.to_owned(),
            memory_bytes: options.memory.ok_or("the comparison gives every engine a memory limit")?,
            write_buffer: options.write_buffer,
            data_bytes: self.data_bytes,
            sync: options.sync,
            background_threads: self.background_threads,
        };
        let opened = open(&options.partitions.map_or(setup.clone(), |partitions| setup.part(partitions.count)))?;
        let about = About { version: opened.version, settings: opened.settings };
        *self.about.lock().unwrap_or_else(PoisonError::into_inner) = about;
        Ok(opened.engine)
    }

    fn is_log(&self, path: &Path) -> bool {
        (self.kind.is_log)(path)
    }
}
