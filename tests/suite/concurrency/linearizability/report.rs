//! A history for people: one line for each operation, with its time, its thread, and what it did or saw.

use super::history::{History, Key, Value};
use std::fmt::Write;

/// The largest number of ticks that a drawing can show.
const DRAWN_MAX: usize = 60;

/// The whole history in the order of its calls.
pub fn report(history: &History) -> String {
    let name = |key: Key| format!("k{key}");
    let mut ticks: Vec<u64> = history.operations().flat_map(|operation| [operation.call, operation.ret]).collect();
    ticks.sort_unstable();
    ticks.dedup();
    let place = |tick: u64| ticks.partition_point(|other| *other < tick);
    let mut text = String::from("  before:");
    let mut used: Vec<Key> = history.operations().flat_map(|operation| operation.effect.keys()).collect();
    used.sort_unstable();
    used.dedup();
    for key in used {
        let _ = write!(text, " {} = {}", name(key), shown(history.initial[key]));
    }
    text.push('\n');
    let threads = history.threads.iter().enumerate();
    let mut lines: Vec<_> = threads.flat_map(|(thread, all)| all.iter().map(move |one| (thread, one))).collect();
    lines.sort_by_key(|(thread, operation)| (operation.call, *thread));
    for (thread, operation) in lines {
        let (from, to) = (place(operation.call), place(operation.ret));
        let _ = match ticks.len() {
            0..DRAWN_MAX => {
                let (width, rest) = (to - from, ticks.len() - 1 - to);
                write!(text, "  {0:from$}├{0:─<width$}┤{0:rest$}", "")
            }
            _ => write!(text, "  [{from:3}, {to:3}]"),
        };
        let _ = write!(text, " thread {thread}: {}", operation.name);
        if operation.effect.wrote.is_empty() || !operation.effect.saw.is_empty() {
            text.push_str(" sees");
        }
        for seen in &operation.effect.saw {
            let by = if seen.by == operation.name { String::new() } else { format!(" (by {})", seen.by) };
            let _ = write!(text, " {} = {}{by}", name(seen.key), shown(seen.value));
        }
        for (key, value) in &operation.effect.wrote {
            let _ = write!(text, " {} := {}", name(*key), shown(*value));
        }
        text.push('\n');
    }
    text
}

fn shown(value: Value) -> String {
    match value {
        Value::ABSENT => "absent".into(),
        Value::EMPTY => "empty".into(),
        Value::PRESENT => "something".into(),
        Value(number) => format!("v{number}"),
    }
}
