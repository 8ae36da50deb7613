//! The promises that a store has made, and whether its contents keep them.
//!
//! A run's writes are numbered; the store must hold the state after a prefix of them that is long enough. A write that
//! failed may have happened or not. Once a check has found out which, this must not change.

use super::step::Changes;
use std::collections::BTreeMap;

/// All pairs of a store.
pub type Contents = BTreeMap<String, Vec<u8>>;

/// The writes of a run, and which of them are acknowledged and synced.
#[derive(Clone, Debug, Default)]
pub struct Promise {
    /// What the store held before the first write, durably.
    base: Contents,
    writes: Vec<Write>,
    /// The number of writes that were handed to the kernel.
    pub acknowledged: usize,
    /// The number of durable writes.
    pub synced: usize,
}

#[derive(Clone, Debug)]
struct Write {
    changes: Changes,
    /// The write returned an error, and it is unknown whether it happened.
    doubtful: bool,
}

/// The largest number of writes of unknown effect: every subset of them is tried.
const DOUBTFUL_MAX: u32 = 8;

impl Promise {
    /// A store that durably holds `contents`.
    pub fn of(base: Contents) -> Self {
        Self { base, ..Self::default() }
    }

    /// A write begins: from now on it may happen.
    pub fn begin(&mut self, changes: Changes) {
        self.writes.push(Write { changes, doubtful: false });
    }

    /// The newest write returned.
    pub fn acknowledge(&mut self) {
        self.acknowledged = self.writes.len();
    }

    /// The newest write failed and certainly had no effect.
    pub fn take_back(&mut self) {
        self.writes.pop();
    }

    /// The newest write failed, and it is not known whether it happened.
    pub fn doubt(&mut self) {
        if let Some(write) = self.writes.last_mut() {
            write.doubtful = true;
        }
        self.acknowledge();
    }

    /// Everything acknowledged is durable.
    pub fn sync(&mut self) {
        self.synced = self.acknowledged;
    }

    /// The promise after a loss of power: writes that were only acknowledged may be lost.
    pub fn after_power_loss(mut self) -> Self {
        self.acknowledged = self.synced;
        self
    }

    /// The contents that a running store must have, including the newest write if it has not returned yet.
    pub fn contents(&self) -> Contents {
        let mut contents = self.base.clone();
        self.writes.iter().for_each(|write| apply(&mut contents, &write.changes));
        contents
    }

    /// How many writes the store holds; an error if they are no prefix, or if the prefix is too short.
    pub fn prefix(&self, found: &Contents, at_least: usize) -> Result<usize, String> {
        let doubts = self.writes.iter().filter(|write| write.doubtful).count() as u32;
        assert!(doubts <= DOUBTFUL_MAX, "a run with {doubts} writes of unknown effect");
        let mut too_short = None;
        for happened in 0..1u32 << doubts {
            let (mut contents, mut doubt) = (self.base.clone(), 0);
            for length in 0..=self.writes.len() {
                if length > 0 {
                    let write = &self.writes[length - 1];
                    let skipped = write.doubtful && happened >> doubt & 1 == 0;
                    doubt += u32::from(write.doubtful);
                    if !skipped {
                        apply(&mut contents, &write.changes);
                    }
                }
                if contents == *found {
                    if length >= at_least {
                        return Ok(length);
                    }
                    too_short = too_short.max(Some(length));
                }
            }
        }
        Err(match too_short {
            Some(length) => format!("it holds the first {length} writes, and {at_least} were promised"),
            None => format!("it holds no prefix of the {} writes: {}", self.writes.len(), self.difference(found)),
        })
    }

    /// The differences between what was found and the state after all writes.
    fn difference(&self, found: &Contents) -> String {
        let wanted = self.contents();
        let show = |value: Option<&Vec<u8>>| match value {
            None => "nothing".to_owned(),
            Some(value) => {
                let text: String = value.iter().take(8).map(|&byte| char::from(byte)).collect();
                format!("{:?} of {} bytes", text, value.len())
            }
        };
        let mut keys: Vec<&String> = wanted.keys().chain(found.keys()).collect();
        keys.sort();
        keys.dedup();
        let differ = |key: &&&String| wanted.get(**key) != found.get(**key);
        let lines = keys.iter().filter(differ).map(|key| {
            format!("{key} has {}; after all writes it would have {}", show(found.get(*key)), show(wanted.get(*key)))
        });
        lines.collect::<Vec<_>>().join("; ")
    }
}

fn apply(contents: &mut Contents, changes: &Changes) {
    for (key, value) in changes {
        match value {
            Some(value) => contents.insert(key.clone(), value.clone()),
            None => contents.remove(key),
        };
    }
}

#[test]
fn holes_half_batches_and_short_prefixes_are_detected() {
    let one = |key: &str, value: &str| vec![(key.to_owned(), Some(value.as_bytes().to_vec()))];
    let mut promise = Promise::of(Contents::from([("z".into(), b"0".to_vec())]));
    promise.begin(one("a", "1"));
    promise.begin([one("b", "2"), one("c", "2")].concat());
    promise.begin(vec![("a".into(), None)]);
    let state = |pairs: &[(&str, &str)]| -> Contents {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec())).collect()
    };
    let whole = state(&[("b", "2"), ("c", "2"), ("z", "0")]);
    assert_eq!(promise.prefix(&whole, 3), Ok(3));
    assert_eq!(promise.prefix(&state(&[("a", "1"), ("z", "0")]), 1), Ok(1));
    assert!(promise.prefix(&state(&[("a", "1"), ("z", "0")]), 2).unwrap_err().contains("first 1 writes, and 2"));
    for wrong in
        [&[("z", "0"), ("b", "2"), ("a", "1")][..], &[("a", "1")], &[("z", "0"), ("b", "2"), ("c", "2"), ("d", "")]]
    {
        assert!(promise.prefix(&state(wrong), 0).unwrap_err().contains("no prefix"), "{wrong:?}");
    }
    // A write of unknown effect may be there or not; the others must be there.
    promise.begin(one("d", "4"));
    promise.doubt();
    promise.begin(one("e", "5"));
    promise.acknowledge();
    for pairs in [
        &[("b", "2"), ("c", "2"), ("e", "5"), ("z", "0")][..],
        &[("b", "2"), ("c", "2"), ("d", "4"), ("e", "5"), ("z", "0")],
    ] {
        assert_eq!(promise.prefix(&state(pairs), 5), Ok(5));
    }
    assert!(promise.prefix(&whole, 5).is_err());
}
