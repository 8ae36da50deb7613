//! `soak`: runs a store under random operations and kills, and checks everything. The implementation is in
//! `crate::soak`.

use crate::arguments::Common;
use crate::failure::Failure;
use crate::soak::{Broken, SoakArguments, SoakDirectory, Work, run_round, soak};
use crate::soak_arguments::Soak;
use std::hash::{BuildHasher, RandomState};

const THREADS: u64 = 2;
const KEYS: u64 = 400_000;
const VALUE_SIZE: u64 = 200;
const MEMORY: u64 = 128 << 20;
/// With less, a quarter of the budget, which some rounds use, would be below the store's minimum.
const MEMORY_MIN: u64 = 1 << 20;

/// Runs a soak, or the child process of one round.
pub fn run(common: &Common, arguments: &Soak) -> Result<(), Failure> {
    if let Some(life) = arguments.child {
        return run_round(&SoakDirectory::existing(common.directory()?), life)
            .map_err(|Broken(why)| Failure::Broken(why));
    }
    let (place, work) = SoakDirectory::make(common.db.as_deref(), |stored| settings(common, arguments, stored))?;
    soak(place, &work, &SoakArguments { duration: arguments.duration, json: common.json })
}

/// The settings of a soak: the arguments, or those stored in the directory. Arguments that contradict stored ones are
/// an error.
fn settings(common: &Common, arguments: &Soak, stored: Option<Work>) -> Result<Work, Failure> {
    if common.sync || common.hex {
        return Err(Failure::Usage("soak chooses what is synced and prints no keys: remove --sync and --hex".into()));
    }
    if common.memory.is_some_and(|memory| memory < MEMORY_MIN) {
        return Err(Failure::Usage(format!("--memory must be at least {MEMORY_MIN} bytes for a soak")));
    }
    let fresh = Work { seed: random_seed(), threads: THREADS, keys: KEYS, value_size: VALUE_SIZE, memory: MEMORY };
    let base = stored.unwrap_or(fresh);
    let work = Work {
        seed: arguments.seed.unwrap_or(base.seed),
        threads: arguments.threads.map_or(base.threads, u64::from),
        keys: arguments.keys.unwrap_or(base.keys),
        value_size: arguments.value_size.unwrap_or(base.value_size),
        memory: common.memory.unwrap_or(base.memory),
    };
    match stored {
        Some(stored) if work != stored => Err(Failure::Usage(format!(
            "the soak in this directory has --seed {} --threads {} --keys {} --value-size {} --memory {}; leave these out, or take another \
             directory",
            stored.seed, stored.threads, stored.keys, stored.value_size, stored.memory
        ))),
        _ if work.keys_each() < 100 => Err(Failure::Usage("at least 100 keys per thread are needed".into())),
        _ => Ok(work),
    }
}

/// A random seed: `RandomState` draws its keys from the system's random source. Short enough to type.
fn random_seed() -> u64 {
    RandomState::new().hash_one(std::process::id()) >> 32
}
