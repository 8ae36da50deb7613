//! The expected state of a writer's keys after a number of its operations. Plain values; each thread has its own
//! models.

use super::work::Work;
use std::ops::Range;

/// The state of one writer's keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    /// The writer.
    pub writer: u64,
    /// The number of operations applied.
    pub done: u64,
    /// For each key, the operation that set it last; 0 if the key is absent.
    pub slots: Vec<u64>,
}

impl Model {
    /// The state before the first operation.
    pub fn new(work: &Work, writer: u64) -> Self {
        Self { writer, done: 0, slots: vec![0; work.keys_each() as usize] }
    }

    /// Applies the operations up to `count`.
    pub fn advance(&mut self, work: &Work, count: u64) {
        while self.done < count {
            self.done += 1;
            let (done, slots) = (self.done, &mut self.slots);
            work.changes(self.writer, done, |change| slots[change.key as usize] = if change.put { done } else { 0 });
        }
    }

    /// Advances to the first state, up to operation `last`, whose keys in `keys` equal `found`, and returns true. If
    /// there is none, leaves the model unchanged and returns false.
    pub fn advance_to(&mut self, work: &Work, found: &[u64], keys: Range<u64>, last: u64) -> bool {
        let mut ahead = self.clone();
        let at = |key: u64| (key - keys.start) as usize;
        let mut differing = keys.clone().filter(|key| ahead.slots[*key as usize] != found[at(*key)]).count();
        while differing > 0 && ahead.done < last {
            ahead.done += 1;
            let (done, slots) = (ahead.done, &mut ahead.slots);
            work.changes(ahead.writer, done, |change| {
                let slot = &mut slots[change.key as usize];
                let before = *slot;
                *slot = if change.put { done } else { 0 };
                if keys.contains(&change.key) {
                    let found = found[at(change.key)];
                    differing = differing + usize::from(*slot != found) - usize::from(before != found);
                }
            });
        }
        if differing == 0 {
            *self = ahead;
        }
        differing == 0
    }

    /// The first key in a range that differs from `found`.
    pub fn difference(&self, found: &[u64], keys: Range<u64>) -> Option<u64> {
        keys.clone().find(|key| self.slots[*key as usize] != found[(*key - keys.start) as usize])
    }

    /// Bytes of live keys and values.
    pub fn live_bytes(&self, work: &Work) -> u64 {
        let live = self.slots.iter().enumerate().filter(|(_, count)| **count > 0);
        live.map(|(key, count)| 24 + work.value_length(self.writer, *count, key as u64)).sum()
    }

    /// As bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.done.to_le_bytes());
        self.slots.iter().for_each(|count| out.extend_from_slice(&count.to_le_bytes()));
    }

    /// From bytes of the right length.
    pub fn decode(writer: u64, bytes: &[u8]) -> Option<Self> {
        let (words, rest) = bytes.as_chunks::<8>();
        let mut words = words.iter().map(|word| u64::from_le_bytes(*word));
        let done = words.next()?;
        rest.is_empty().then(|| Self { writer, done, slots: words.collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::super::work::SMALL;
    use super::*;

    #[test]
    fn only_a_state_between_two_operation_counts_is_accepted() {
        let mut model = Model::new(&SMALL, 0);
        model.advance(&SMALL, 3000);
        let mut later = model.clone();
        later.advance(&SMALL, 3037);
        let keys = 0..SMALL.keys_each();
        let mut found = model.clone();
        assert!(!found.advance_to(&SMALL, &later.slots, keys.clone(), 3036));
        assert_eq!(found, model, "the model is unchanged");
        assert!(found.advance_to(&SMALL, &later.slots, keys.clone(), 3037) && found == later);
        // A value too old, one of a batch missing, a delete undone: no state has them.
        let changed = keys.clone().find(|key| model.slots[*key as usize] != later.slots[*key as usize]).unwrap();
        later.slots[changed as usize] = model.slots[changed as usize];
        assert!(!model.clone().advance_to(&SMALL, &later.slots, keys.clone(), 3100));
        assert_eq!(found.difference(&later.slots, keys), Some(changed));
        // A window of the keys is compared on its own.
        assert!(model.clone().advance_to(&SMALL, &found.slots[100..200], 100..200, 3037));
    }

    #[test]
    fn models_round_trip_through_bytes() {
        let mut model = Model::new(&SMALL, 1);
        model.advance(&SMALL, 100);
        let mut bytes = Vec::new();
        model.encode(&mut bytes);
        assert_eq!(Model::decode(1, &bytes), Some(model));
        assert_eq!(Model::decode(1, &bytes[..11]), None);
        assert_eq!(Model::decode(1, &[]), None);
    }
}
