//! The smallest part of a history that is not linearizable by itself.
//!
//! What is taken away must not be what makes the rest wrong.
//!
//! 1. A read may always go.
//! 2. A write may go where nobody can have read what it wrote: whoever saw that value had returned before. In an order that explains
//!    the whole history nothing between such a write and the next of its key reads the key, so the order without it
//!    explains the rest: if the rest cannot be explained, then neither can the whole.
//! 3. What had returned before anything else was called comes first in every order: a write then is the state before.

use super::checker::check;
use super::history::{Effect, History, Key, Operation, Value};

/// Takes away all that can go.
pub fn shrink(history: &History) -> History {
    let mut smallest = history.clone();
    // Ends: every round but the last makes it smaller.
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
    history.operations().map(|operation| operation.effect.keys().len()).sum()
}

/// The history after its first operation, where that is sure to be the first and what is wrong comes after it.
fn without_the_first(history: &History) -> Option<History> {
    let mut without = history.clone();
    let next = without.threads.iter().enumerate().filter_map(|(thread, all)| Some((all.first()?.call, thread)));
    let (_, thread) = next.min()?;
    let first = without.threads[thread].remove(0);
    if without.operations().any(|other| other.call <= first.ret) {
        return None;
    }
    if let Effect::Write(pairs) = first.effect {
        // A read of what was there before is what is wrong, and would look like one of what nobody wrote.
        if pairs.iter().any(|(key, _)| is_read(&without, *key, history.initial[*key], 0)) {
            return None;
        }
        pairs.iter().for_each(|(key, value)| without.initial[*key] = *value);
    }
    check(&without).is_err().then_some(without)
}

/// Takes away one operation, or else single keys of it.
fn try_without(history: &mut History, thread: usize, at: usize) {
    let mut without = history.clone();
    let removed = without.threads[thread].remove(at);
    if may_go(&without, &removed.effect, removed.call) && check(&without).is_err() {
        *history = without;
        return;
    }
    for key in (0..removed.effect.keys().len()).rev() {
        let mut without = history.clone();
        if let Some(gone) = take_out(&mut without.threads[thread][at], key)
            && may_go(&without, &gone, removed.call)
            && check(&without).is_err()
        {
            *history = without;
        }
    }
}

/// Takes one key of several out of an operation.
fn take_out(operation: &mut Operation, at: usize) -> Option<Effect> {
    match &mut operation.effect {
        Effect::Write(pairs) if pairs.len() > 1 => Some(Effect::Write(vec![pairs.remove(at)])),
        Effect::Read(seen) if seen.len() > 1 => Some(Effect::Read(vec![seen.remove(at)])),
        _ => None,
    }
}

fn may_go(rest: &History, gone: &Effect, call: u64) -> bool {
    match gone {
        Effect::Read(_) => true,
        Effect::Write(pairs) => !pairs.iter().any(|(key, value)| is_read(rest, *key, *value, call)),
    }
}

/// Whether a read that returned after this time sees the value.
fn is_read(history: &History, key: Key, value: Value, from: u64) -> bool {
    history.operations().any(|operation| match &operation.effect {
        Effect::Read(seen) => operation.ret >= from && seen.iter().any(|seen| (seen.key, seen.value) == (key, value)),
        Effect::Write(_) => false,
    })
}
