//! An engine kind as the benchmark's sessions open it: the same memory limit and data size for all or, without a limit,
//! with its default options. Keeps what the engine reports about itself for the results.

use super::{Defaults, HARNESS_BYTES, Kind, Setting, Setup, beside_caches_bytes};
use alluvium_bench::engine::{Engine, EngineOptions, Factory, Result};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Puts that share a transaction in engines with default options that sync each one.
const PUTS_PER_TRANSACTION: usize = 1000;

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
        let directory = directory.to_owned();
        let opened = match options.memory {
            None => {
                let open = self.kind.open_default.ok_or("the engine has no configuration with default options here")?;
                open(&Defaults {
                    directory,
                    data_bytes: self.data_bytes,
                    puts_per_transaction: PUTS_PER_TRANSACTION,
                    for_point_reads: true,
                })?
            }
            Some(memory_bytes) => {
                let open = self.kind.open.ok_or("the engine is not built in")?;
                let setup = Setup {
                    directory,
                    memory_bytes,
                    write_buffer: options.write_buffer,
                    item_cache: options.item_cache,
                    write_limit: options.write_limit,
                    compressed: options.compressed,
                    component: options.component,
                    levels: options.levels,
                    data_bytes: self.data_bytes,
                    sync: options.sync,
                    background_threads: self.background_threads,
                    harness_bytes: HARNESS_BYTES,
                    beside_caches_bytes: beside_caches_bytes(memory_bytes),
                };
                open(&options.partitions.map_or(setup.clone(), |partitions| setup.part(partitions.count)))?
            }
        };
        let about = About { version: opened.version, settings: opened.settings };
        *self.about.lock().unwrap_or_else(PoisonError::into_inner) = about;
        Ok(opened.engine)
    }

    fn is_log(&self, path: &Path) -> bool {
        (self.kind.is_log)(path)
    }
}
