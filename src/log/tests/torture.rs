//! Random runs: writes, syncs, recycling and crashes of every kind at random operations, against a model.

use super::harness::{Client, Manifest, OPTIONS, Opened, Outcome, Random, recover_from};
use crate::io::Storage;
use crate::io::simulated::SimulatedStorage;
use crate::util::sync::Arc;
use crate::util::{Error, Result};
use std::collections::BTreeMap;

/// What must exist and what may exist.
#[derive(Default)]
struct Model {
    /// Durable since a recovery, or synced in this log epoch.
    durable: BTreeMap<u64, Vec<u8>>,
    /// Sealed in this log epoch.
    sealed: BTreeMap<u64, Vec<u8>>,
    /// Sealed, but the process died before the kernel had it for certain.
    unwritten: Option<(u64, Vec<u8>)>,
}

impl Model {
    fn check(&self, outcome: &Outcome, manifest: &Manifest, kept_everything: bool, story: &str) {
        let above = |map: &BTreeMap<u64, Vec<u8>>| {
            map.range(manifest.incorporated.0 + 1..).map(|(n, v)| (*n, v.clone())).collect::<BTreeMap<_, _>>()
        };
        let (durable, sealed) = (above(&self.durable), above(&self.sealed));
        let mut all = durable.clone();
        all.extend(sealed.clone());
        let unwritten = self.unwritten.iter().filter(|(number, _)| outcome.values.contains_key(number));
        for (number, value) in unwritten {
            all.entry(*number).or_insert_with(|| value.clone());
        }
        if kept_everything {
            assert!(outcome.values == all, "{story}: {:?} instead of {:?}", outcome.values.keys(), all.keys());
            return;
        }
        for (number, value) in &durable {
            assert_eq!(outcome.values.get(number), Some(value), "{story}: {number} was durable");
        }
        let survived: Vec<_> = outcome.values.iter().collect();
        let prefix: Vec<_> = all.iter().take(survived.len()).collect();
        assert!(survived == prefix, "{story}: {:?} is no prefix of {:?}", outcome.values.keys(), all.keys());
    }
}

struct Life {
    storage: SimulatedStorage,
    opened: Opened,
    clients: Vec<Client>,
}

/// One process: random operations until one of them fails, which is the crash.
fn live(life: &mut Life, model: &mut Model, manifest: &mut Manifest, random: &mut Random) -> Result<()> {
    let Life { storage, opened, clients } = life;
    loop {
        // The process may have died in an operation whose failure does not matter. A put needs no operation.
        if storage.is_dead() {
            return Err(Error::Closed);
        }
        let at = random.below(clients.len() as u64) as usize;
        match random.below(100) {
            0..85 => {
                let length = if random.below(20) == 0 { random.below(20_000) } else { random.below(400) };
                let value: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
                match clients[at].put(&value) {
                    Ok(number) => drop(model.sealed.insert(number, value)),
                    Err(error) => {
                        model.unwritten = Some((opened.sequencer.last().0, value));
                        return Err(error);
                    }
                }
            }
            85..90 => {
                opened.sync_all()?;
                let last = opened.sequencer.last().0;
                let synced: Vec<u64> = model.sealed.range(..=last).map(|(number, _)| *number).collect();
                for number in synced {
                    let value = model.sealed.remove(&number).unwrap();
                    model.durable.insert(number, value);
                }
            }
            90..92 => {
                // Incorporation never runs ahead of the synced log.
                let synced = opened.log.synced();
                let span = synced.0.saturating_sub(manifest.incorporated.0);
                if span > 0 {
                    manifest.incorporated.0 += 1 + random.below(span);
                    opened.log.recycle(&opened.log.recyclable(manifest.incorporated))?;
                }
            }
            92..94 => clients[at] = opened.client(),
            94..96 => opened.log.note_manifest_edit(random.below(1000)),
            _ => {}
        }
        opened.log.maintain(&opened.sequencer)?;
    }
}

fn torture(seed: u64) {
    let mut random = Random(seed);
    let mut storage = SimulatedStorage::new(seed);
    let mapped = random.below(3) > 0;
    storage.set_maps_safely(mapped);
    let mut manifest = Manifest { epochs_from: 1, ..Manifest::default() };
    let mut model = Model::default();
    for round in 0..12 {
        let story = format!("seed {seed} round {round} (mapped: {mapped})");
        if random.below(4) > 0 {
            storage.crash_at(1 + random.below(300));
        }
        let outcome = recover_from(&storage, &manifest);
        let opened = match outcome {
            Ok(outcome) => {
                // From here on the edit is durable, and with it everything that was recovered.
                model.durable = outcome.values.clone();
                model.sealed.clear();
                model.unwritten = None;
                if let Some(edit) = &outcome.recovered.edit {
                    assert!(outcome.recovered.next_number > edit.cut);
                }
                Opened::new(Arc::new(storage.clone()), &mut manifest, outcome.recovered, OPTIONS)
            }
            Err(_) if storage.is_dead() => Err(Error::Closed),
            Err(error) => panic!("{story}: {error}"),
        };
        // The end of the process: the crash must leave everything that the next recovery needs.
        if let Ok(opened) = opened {
            storage.crash_at(1 + random.below(400));
            let ready = opened.log.maintain(&opened.sequencer);
            let clients = (0..1 + random.below(4)).map(|_| opened.client()).collect();
            let mut life = Life { storage: storage.clone(), opened, clients };
            let _ = ready.and_then(|()| live(&mut life, &mut model, &mut manifest, &mut random));
        }
        assert!(storage.is_dead(), "{story}");
        let kind = random.below(4);
        let next = match kind {
            0 | 1 => storage.kill(),
            2 => storage.power_cut(random.next()),
            _ => storage.mount_lost(random.next()),
        };
        // Recover twice: a recovery that dies before its edit is durable changes nothing.
        let outcome = recover_from(&next, &manifest).unwrap_or_else(|error| panic!("{story} kind {kind}: {error}"));
        let poisoned = next.list().unwrap().iter().any(|name| name == "POISON");
        model.check(&outcome, &manifest, kind < 2 && !poisoned, &story);
        if kind < 2 && !poisoned && random.below(2) == 0 {
            // Killed during recovery: it has synced what it read, so a power cut now loses nothing more.
            model.durable.extend(std::mem::take(&mut model.sealed));
            let seed = random.next();
            let next = next.power_cut(seed);
            let outcome = recover_from(&next, &manifest).unwrap_or_else(|error| panic!("{story} then cut: {error}"));
            model.check(&outcome, &manifest, true, &format!("{story}, then a power cut"));
            storage = next;
        } else {
            model.durable = outcome.values;
            model.sealed.clear();
            storage = next;
        }
    }
}

#[test]
fn random_runs_keep_every_promise() {
    let base = std::env::var("ALLUVIUM_SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds: Vec<u64> = base.map_or_else(|| (0..50).collect(), |seed| vec![seed]);
    for seed in seeds {
        torture(seed);
    }
}
