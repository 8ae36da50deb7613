//! The jobs of a run, and their order: every repetition runs all engines before the next one begins, and each
//! repetition begins with another engine, so that a slow drift of the machine affects all equally.

use alluvium_bench::{Settings, catalogue};

/// One workload of a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its name.
    pub workload: String,
    /// The number of operations, if it differs from the number of keys.
    pub ops: Option<u64>,
}

/// A series of workloads on one store, the first of which loads it.
pub type Chain = Vec<Step>;

/// One engine's turn at one chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Its index in the list of engines.
    pub engine: usize,
    /// The workloads.
    pub chain: Chain,
    /// Threads that do them.
    pub threads: usize,
    /// The repetition, counted from 1.
    pub repeat: u32,
}

/// The workload that loads a store, if a list begins with one that needs a loaded store.
const DEFAULT_FILL: &str = "fillrandom";
/// A seek reads 51 pairs, so a tenth of the operations is enough.
const SEEK_DIVISOR: u64 = 10;

/// Splits a list of workloads into chains: each fill begins one. `readrandom*500000` does that many operations.
///
/// # Errors
/// An unknown workload, an invalid number of operations.
pub fn chains(workloads: &[String], num: u64) -> Result<Vec<Chain>, String> {
    let mut chains: Vec<Chain> = Vec::new();
    for given in workloads {
        let (name, ops) = match given.split_once('*') {
            Some((name, ops)) => match ops.parse::<u64>() {
                Ok(ops @ 1..) => (name, Some(ops)),
                _ => return Err(format!("\"{ops}\" in {given} is not a number of operations")),
            },
            None => (given.as_str(), None),
        };
        let workload = catalogue::named(name, &Settings::default()).map_err(|error| error.to_string())?;
        if chains.is_empty() && !workload.fills() {
            chains.push(vec![Step { workload: DEFAULT_FILL.to_owned(), ops: None }]);
        }
        let seeks = matches!(name, "seekrandom" | "e");
        let ops = ops.or(seeks.then(|| (num / SEEK_DIVISOR).max(1)));
        let step = Step { workload: name.to_owned(), ops };
        match chains.last_mut() {
            Some(chain) if !workload.fills() => chain.push(step),
            _ => chains.push(vec![step]),
        }
    }
    if chains.is_empty() { Err("no workload was given".to_owned()) } else { Ok(chains) }
}

/// All turns, in order.
pub fn turns(engines: usize, chains: &[Chain], threads: &[usize], repeats: u32) -> Vec<Turn> {
    let mut turns = Vec::new();
    for repeat in 1..=repeats {
        for chain in chains {
            for threads in threads {
                for place in 0..engines {
                    let engine = (place + repeat as usize - 1) % engines;
                    turns.push(Turn { engine, chain: chain.clone(), threads: *threads, repeat });
                }
            }
        }
    }
    turns
}

/// The workloads before a step determine the state that it finds, so its name includes them:
/// `fillrandom>seekrandom*500`.
pub fn path(chain: &[Step], step: usize) -> String {
    let parts: Vec<String> = chain[..=step]
        .iter()
        .map(|step| match step.ops {
            Some(ops) => format!("{}*{ops}", step.workload),
            None => step.workload.clone(),
        })
        .collect();
    parts.join(">")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(workloads: &[&str]) -> Vec<String> {
        workloads.iter().map(|name| (*name).to_owned()).collect()
    }

    fn shown(workloads: &[&str]) -> Vec<String> {
        let chains = chains(&names(workloads), 1000).unwrap();
        chains.iter().map(|chain| path(chain, chain.len() - 1)).collect()
    }

    #[test]
    fn a_fill_begins_a_chain() {
        assert_eq!(
            shown(&["fillrandom", "readrandom", "seekrandom", "fillseq", "readseq"]),
            ["fillrandom>readrandom>seekrandom*100", "fillseq>readseq"]
        );
        assert_eq!(shown(&["readrandom", "a"]), ["fillrandom>readrandom>a"]);
        assert_eq!(shown(&["fillseq", "fillseq"]), ["fillseq", "fillseq"]);
        assert_eq!(shown(&["readrandom*5", "seekrandom*7"]), ["fillrandom>readrandom*5>seekrandom*7"]);
    }

    #[test]
    fn unknown_workloads_and_empty_lists_are_refused() {
        assert!(chains(&names(&["readrandum"]), 10).unwrap_err().contains("readrandom"));
        assert!(chains(&[], 10).is_err());
        for wrong in ["readrandom*", "readrandom*0", "readrandom*x"] {
            assert!(chains(&names(&[wrong]), 10).unwrap_err().contains(wrong), "{wrong}");
        }
    }

    #[test]
    fn engines_are_interleaved_and_take_turns_at_being_first() {
        let chains = chains(&names(&["fillseq"]), 10).unwrap();
        let order: Vec<(u32, usize)> =
            turns(3, &chains, &[1], 2).iter().map(|turn| (turn.repeat, turn.engine)).collect();
        assert_eq!(order, [(1, 0), (1, 1), (1, 2), (2, 1), (2, 2), (2, 0)]);
        assert_eq!(turns(3, &chains, &[1, 2], 2).len(), 12);
    }

    #[test]
    fn the_way_to_a_step_names_it() {
        let chain = &chains(&names(&["fillseq", "seekrandom", "readseq"]), 1000).unwrap()[0];
        assert_eq!(path(chain, 0), "fillseq");
        assert_eq!(path(chain, 1), "fillseq>seekrandom*100");
        assert_eq!(path(chain, 2), "fillseq>seekrandom*100>readseq");
    }
}
