//! Updates, swaps and puts of absent keys: each is a read and a write at one instant, or only a read if it did not
//! change the key.

use super::{Broken, Recorder};
use crate::concurrency::linearizability::history::{Effect, Key, Seen, Value};
use crate::concurrency::linearizability::plan::{Guess, Manner};
use crate::concurrency::linearizability::values::{decode, encode};
use alluvium::{Change, Swap, WriteOptions};

impl Recorder<'_> {
    /// Each call of the function except the last is a read.
    pub(super) fn update(&mut self, key: Key, value: Value, length: usize, manner: Manner) -> Broken {
        let (mut runs, mut broken) = (Vec::new(), None);
        let mut change = |old: Option<&[u8]>| {
            let saw = decode(old).unwrap_or_else(|error| {
                broken = Some(error);
                Value::ABSENT
            });
            let made = match (manner, saw.0 % 3) {
                (Manner::Deletes | Manner::Keeps, 0) => Some(Value::ABSENT),
                (Manner::Keeps, 1) => None,
                _ => Some(value),
            };
            runs.push((saw, made));
            match made {
                None => Change::Keep,
                Some(Value::ABSENT) => Change::Delete,
                Some(value) => Change::Put(encode(value, length)),
            }
        };
        let (own, name) = (self.of_key(key)?, self.name(key));
        let done = match manner {
            Manner::Keeps => own.update_with(name, WriteOptions::default(), change),
            Manner::Always | Manner::Deletes => own.update(name, |old| match change(old) {
                Change::Put(bytes) => Some(bytes),
                Change::Delete | Change::Keep => None,
            }),
        };
        if let Some(error) = broken {
            return Err(format!("an update was given {error}"));
        }
        // What a failed one was given does not count: it may have been read after the drop.
        let Some(given) = self.unless_dropped("update", done)? else { return Ok(()) };
        let Some((saw, made)) = runs.pop() else { return Err("an update never called its function".into()) };
        let expected = made.unwrap_or(saw);
        if decode(given.as_deref()) != Ok(expected) {
            return Err(format!(
                "an update returned {:?}, but its function chose {expected:?}",
                decode(given.as_deref())
            ));
        }
        for (saw, _) in runs {
            self.changed("first try of an update", key, saw, None);
        }
        self.changed("update", key, saw, made);
        self.known[key] = given;
        Ok(())
    }

    pub(super) fn swap(&mut self, key: Key, value: Value, length: usize, guess: Guess) -> Broken {
        if let Guess::Fresh = guess {
            self.get(key)?;
        }
        let expected = self.known[key].take().filter(|_| !matches!(guess, Guess::Absent));
        let new = (value != Value::ABSENT).then(|| encode(value, length));
        let own = self.of_key(key)?;
        let done = own.compare_and_swap(self.name(key), expected.as_deref(), new.as_deref());
        let Some(done) = self.unless_dropped("swap", done)? else { return Ok(()) };
        match done {
            Swap::Done => {
                self.changed("compare_and_swap", key, decode(expected.as_deref())?, Some(value));
                self.known[key] = new;
            }
            Swap::Differs(found) if found == expected => {
                return Err("a swap found the expected value, but did not succeed".into());
            }
            Swap::Differs(found) => {
                self.changed("compare_and_swap", key, decode(found.as_deref())?, None);
                self.known[key] = found;
            }
        }
        Ok(())
    }

    pub(super) fn put_if_absent(&mut self, key: Key, value: Value, length: usize) -> Broken {
        let is_done = self.of_key(key)?.put_if_absent(self.name(key), encode(value, length));
        let Some(is_done) = self.unless_dropped("put_if_absent", is_done)? else { return Ok(()) };
        let (saw, new) = if is_done { (Value::ABSENT, Some(value)) } else { (Value::PRESENT, None) };
        self.changed("put_if_absent", key, saw, new);
        Ok(())
    }

    fn changed(&mut self, name: &'static str, key: Key, saw: Value, new: Option<Value>) {
        // A delete of an absent key writes nothing, which has the same effect.
        let wrote = new.into_iter().map(|value| (key, value)).collect();
        self.begin(name, Effect { saw: vec![Seen { key, value: saw, by: name }], wrote });
    }
}
