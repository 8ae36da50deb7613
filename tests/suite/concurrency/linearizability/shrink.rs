//! The smallest part of a history that is not linearizable by itself.
//!
//! A removal must not make a correct history wrong.
//!
//! 1. A read can always be removed.
//! 2. A write can be removed if no read can have seen its value: every read that saw this value had returned before the
//!    write. In an order that explains the whole history, no read of the key is between such a write and the next write
//!    of the key. So the order without the write explains the rest: if no order explains the rest, no order explains
//!    the whole.
//! 3. An operation that had returned before any other was called comes first in every order: a write is then part of
//!    the initial state.

use super::checker::check;
use super::history::{Effect, History, Key, Operation, Seen, Value};

/// Removes everything that can be removed.
pub fn shrink(history: &History) -> History {
    let mut smallest = history.clone();
    // Terminates: every round except the last removes something.
    loop {
        let before = size(&smallest);
        for thread in 0..smallest.threads.len() {
            for at in (0..smallest.threads[thread].len()).rev() {
                try_without(&mut smallest, thread, at);
            }
        }
        while let Some(without) = without_the_first(&smallest) {
            smallest = without;
        }
        if size(&smallest) == before {
            return smallest;
        }
    }
}

fn size(history: &History) -> usize {
    history.operations().map(|operation| operation.effect.keys().count()).sum()
}

/// The history after its first operation, if that operation must be first and the fault comes after it.
fn without_the_first(history: &History) -> Option<History> {
    let mut without = history.clone();
    let next = without.threads.iter().enumerate().filter_map(|(thread, all)| Some((all.first()?.call, thread)));
    let (_, thread) = next.min()?;
    let first = without.threads[thread].remove(0);
    if without.operations().any(|other| other.call <= first.ret) {
        return None;
    }
    // A read of the initial state may be the fault; without that state it would look like a read of a value that nobody
    // wrote.
    if first.effect.wrote.iter().any(|(key, _)| is_read(&without, *key, history.initial[*key], 0)) {
        return None;
    }
    first.effect.wrote.iter().for_each(|(key, value)| without.initial[*key] = *value);
    check(&without).is_err().then_some(without)
}

/// Removes one operation, or otherwise single keys of it.
fn try_without(history: &mut History, thread: usize, at: usize) {
    let mut without = history.clone();
    let removed = without.threads[thread].remove(at);
    if may_remove(&without, &removed.effect, removed.call) && check(&without).is_err() {
        *history = without;
        return;
    }
    for key in (0..removed.effect.keys().count()).rev() {
        let mut without = history.clone();
        if let Some(gone) = take_out(&mut without.threads[thread][at], key)
            && may_remove(&without, &gone, removed.call)
            && check(&without).is_err()
        {
            *history = without;
        }
    }
}

/// Removes one of several keys from an operation that only reads or only writes: what an update saw explains the fault.
fn take_out(operation: &mut Operation, at: usize) -> Option<Effect> {
    let Effect { saw, wrote } = &mut operation.effect;
    match (saw.len(), wrote.len()) {
        (2.., 0) => Some(Effect::read(vec![saw.remove(at)])),
        (0, 2..) => Some(Effect::write(vec![wrote.remove(at)])),
        _ => None,
    }
}

fn may_remove(rest: &History, gone: &Effect, call: u64) -> bool {
    !gone.wrote.iter().any(|(key, value)| is_read(rest, *key, *value, call))
}

/// Whether a read that returned after this time sees the value.
fn is_read(history: &History, key: Key, value: Value, from: u64) -> bool {
    let reads = |seen: &Seen| seen.key == key && seen.fits(value);
    history.operations().any(|operation| operation.ret >= from && operation.effect.saw.iter().any(reads))
}
