//! `soak`: a store under random work and random deaths, everything checked. The work itself is in `crate::soak`.

use crate::arguments::Common;
use crate::failure::Failure;
use crate::soak::{Asked, Broken, Place, Work, live, soak};
use crate::soak_arguments::Soak;
use std::hash::{BuildHasher, RandomState};

const THREADS: u64 = 2;
const KEYS: u64 = 400_000;
const VALUE_SIZE: u64 = 200;
const MEMORY: u64 = 128 << 20;
/// Below this a quarter of the budget, which some lives get, would be refused.
const MEMORY_MIN: u64 = 1 << 20;

/// Runs a soak, or one life of it.
pub fn run(common: &Common, asked: &Soak) -> Result<(), Failure> {
    if let Some(life) = asked.child {
        return live(&Place::existing(common.directory()?), life).map_err(|Broken(why)| Failure::Broken(why));
    }
    let (place, work) = Place::make(common.db.as_deref(), |there| settings(common, asked, there))?;
    soak(place, &work, &Asked { duration: asked.duration, json: common.json })
}

/// What a soak follows from: what was asked, or what the directory has, which nobody may contradict.
fn settings(common: &Common, asked: &Soak, there: Option<Work>) -> Result<Work, Failure> {
    if common.sync || common.hex {
        return Err(Failure::Usage(
            "soak chooses by itself what is synced, and prints no keys: leave out --sync and --hex".into(),
        ));
    }
    if common.memory.is_some_and(|memory| memory < MEMORY_MIN) {
        return Err(Failure::Usage(format!("--memory is at least {MEMORY_MIN} bytes for a soak")));
    }
    let fresh = Work { seed: draw(), threads: THREADS, keys: KEYS, value_size: VALUE_SIZE, memory: MEMORY };
    let base = there.unwrap_or(fresh);
    let work = Work {
        seed: asked.seed.unwrap_or(base.seed),
        threads: asked.threads.map_or(base.threads, u64::from),
        keys: asked.keys.unwrap_or(base.keys),
        value_size: asked.value_size.unwrap_or(base.value_size),
        memory: common.memory.unwrap_or(base.memory),
    };
    match there {
        Some(there) if work != there => Err(Failure::Usage(format!(
            "the soak there has --seed {} --threads {} --keys {} --value-size {} --memory {}; leave these out, or take another \
             directory",
            there.seed, there.threads, there.keys, there.value_size, there.memory
        ))),
        _ if work.keys_each() < 100 => Err(Failure::Usage("at least 100 keys a thread are needed".into())),
        _ => Ok(work),
    }
}

/// `RandomState` draws its keys from the system's random source. Short enough to be typed again.
fn draw() -> u64 {
    RandomState::new().hash_one(std::process::id()) >> 32
}
