//! Decides whether a history is strictly serializable: whether its committed transactions, and the reads of its aborted
//! transactions, could have run one after the other in an order that agrees with real time.
//!
//! 1. The longest list that was read of a key is the order of its versions; every other list must be a prefix of it.
//!    Items that were appended and never read come after it, since the list would show them.
//! 2. The versions determine which transaction came before which: *ww* wrote the previous version, *wr* wrote what the
//!    other one read, *rw* read what the other one overwrote; an absent key of a scanned range counts as read. *time*:
//!    it had returned before the other one was called.
//! 3. There is an order if and only if these edges make no cycle. A cycle has the name of the weakest isolation that
//!    forbids it (Adya, Liskov and O'Neil, ICDE 2000): without *rw* (G0, G1c), with one (G-single), with several (G2);
//!    cycles with *time* are searched only if there are no others.

use super::anomaly::Anomaly;
use super::effects::{self, Effects};
use super::graph::{Graph, Kinds, Path, Why};
use super::history::{By, History, Item, Key, Transaction};
use std::collections::{BTreeMap, HashMap};

/// The key and the version of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Note {
    key: Key,
    item: Item,
    /// A scan passed the place of a key that did not exist yet.
    absent_in_range: bool,
}

const NONE: Note = Note { key: 0, item: 0, absent_in_range: false };

/// Checks whether a history is strictly serializable.
pub fn check(history: &History) -> Result<(), Anomaly> {
    let effects = effects::of_all(history)?;
    let mut graph = Graph::new(effects.len());
    add_versions(&mut graph, history, &effects)?;
    add_time(&mut graph, &history.transactions);
    let components = graph.components();
    if components.is_empty() {
        return Ok(());
    }
    use Why::{Rw, Time, Wr, Ww};
    let classes: [(&[Why], Option<Why>); 8] = [
        (&[Ww], None),
        (&[Ww, Wr], None),
        (&[Ww, Wr], Some(Rw)),
        (&[Ww, Wr, Rw], Some(Rw)),
        (&[Ww, Time], None),
        (&[Ww, Wr, Time], None),
        (&[Ww, Wr, Time], Some(Rw)),
        (&[Ww, Wr, Rw, Time], None),
    ];
    for (kinds, first) in classes {
        let cycles = components.iter().filter_map(|nodes| graph.shortest_cycle(nodes, Kinds::of(kinds), first));
        if let Some(cycle) = cycles.min_by_key(Vec::len) {
            return Err(describe(&cycle, &history.transactions));
        }
    }
    unreachable!("a component has a cycle of some kind")
}

/// The order of each key's versions, and the edges that follow from it.
fn add_versions(graph: &mut Graph<Note>, history: &History, effects: &[Effects]) -> Result<(), Anomaly> {
    let appended = |(writer, effects): (usize, &Effects)| -> Vec<(Item, usize)> {
        effects.appends.values().flatten().map(|item| (*item, writer)).collect()
    };
    let writers: HashMap<Item, usize> = effects.iter().enumerate().flat_map(appended).collect();
    let mut orders: BTreeMap<Key, (&[Item], usize)> = BTreeMap::new();
    for (reader, own) in effects.iter().enumerate() {
        for (key, (list, _)) in &own.reads {
            let (longest, by) = orders.entry(*key).or_insert((list, reader));
            let (short, long) = if longest.len() < list.len() { (*longest, &list[..]) } else { (&list[..], *longest) };
            if let Some(at) = (0..short.len()).find(|at| short[*at] != long[*at]) {
                // If both read the same version and wrote the next one, one overwrote the other.
                let wrote = [short[at], long[at]].map(|item| writers[&item]);
                let has_read =
                    |writer: &usize| effects[*writer].reads.get(key).is_some_and(|(list, _)| *list == short[..at]);
                let name = if wrote.iter().all(has_read) { "lost update" } else { "incompatible orders" };
                let lines = wrote.iter().chain([by, &reader]).map(|by| Anomaly::line(&history.transactions[*by]));
                let what = format!("one read of k{key} shows {short:?}, another one {long:?}");
                return Err(Anomaly { name: name.into(), story: lines.chain([what]).collect() });
            }
            if longest.len() < list.len() {
                (*longest, *by) = (list, reader);
            }
        }
    }
    let mut unread: BTreeMap<Key, Vec<(Item, usize)>> = BTreeMap::new();
    for (writer, effects) in effects.iter().enumerate() {
        for (key, items) in &effects.appends {
            let order = orders.entry(*key).or_insert((&[], writer)).0;
            let missing = items.iter().find(|item| !order.contains(item));
            unread.entry(*key).or_default().extend(missing.map(|item| (*item, writer)));
        }
    }
    for (key, (order, _)) in &orders {
        let note = |item| Note { key: *key, item, absent_in_range: false };
        for pair in order.windows(2) {
            graph.add(writers[&pair[0]], writers[&pair[1]], Why::Ww, note(pair[1]));
        }
        for (item, writer) in unread.get(key).into_iter().flatten() {
            if let Some(last) = order.last() {
                graph.add(writers[last], *writer, Why::Ww, note(*item));
            }
        }
    }
    for (reader, effects) in effects.iter().enumerate() {
        for (key, (list, by)) in &effects.reads {
            let absent_in_range = list.is_empty() && *by == By::Range;
            let note = |item| Note { key: *key, item, absent_in_range };
            if let Some(last) = list.last() {
                graph.add(writers[last], reader, Why::Wr, note(*last));
            }
            let later = orders[key].0[list.len()..].iter().find(|item| writers[*item] != reader);
            match later {
                Some(item) => graph.add(reader, writers[item], Why::Rw, note(*item)),
                None => unread.get(key).into_iter().flatten().for_each(|(item, writer)| {
                    graph.add(reader, *writer, Why::Rw, note(*item));
                }),
            }
        }
    }
    Ok(())
}

/// Adds an edge from each transaction to those called after its return, without edges that follow from others.
fn add_time(graph: &mut Graph<Note>, all: &[Transaction]) {
    let mut of_thread: HashMap<usize, usize> = HashMap::new();
    for (at, transaction) in all.iter().enumerate() {
        let before = || all.iter().enumerate().filter(|(_, other)| other.ret < transaction.call);
        let latest_call = before().map(|(_, other)| other.call).max().unwrap_or(0);
        for (other, _) in before().filter(|(_, other)| other.ret >= latest_call) {
            graph.add(other, at, Why::Time, NONE);
        }
        if let Some(other) = of_thread.insert(transaction.thread, at) {
            graph.add(other, at, Why::Time, NONE);
        }
    }
}

/// Describes a cycle.
fn describe(cycle: &Path<Note>, all: &[Transaction]) -> Anomaly {
    // Of several *time* edges in a row only the first and the last matter.
    let is_needless = |at: usize| {
        let before = (at + cycle.len() - 1) % cycle.len();
        cycle[at].1.why == Why::Time && cycle[before].1.why == Why::Time
    };
    let path: Path<Note> = (0..cycle.len()).filter(|at| !is_needless(*at)).map(|at| cycle[at]).collect();
    let name = |at: usize| format!("T{}", at % path.len() + 1);
    let lines = path.iter().enumerate().map(|(at, (node, _))| format!("{} {}", name(at), Anomaly::line(&all[*node])));
    let reasons = path.iter().enumerate().map(|(at, (_, edge))| {
        let (from, to, Note { key, item, .. }) = (name(at), name(at + 1), edge.note);
        let why = match edge.why {
            Why::Ww => format!("{to} appended the next item {item} to k{key}"),
            Why::Wr => format!("{to} read its {item} in k{key}"),
            Why::Rw if edge.note.absent_in_range => {
                format!("its scan passed k{key}, which {to} created with its {item}")
            }
            Why::Rw => format!("it read k{key} without the {item} of {to}"),
            Why::Time => format!("it had returned when {to} was called"),
        };
        format!("{from} comes before {to}: {why}")
    });
    Anomaly { name: named(cycle), story: lines.chain(reasons).collect() }
}

fn named(cycle: &Path<Note>) -> String {
    let count = |why| cycle.iter().filter(|(_, edge)| edge.why == why).count();
    let is_of_one_key = cycle.iter().all(|(_, edge)| edge.why == Why::Time || edge.note.key == cycle[0].1.note.key);
    let is_phantom = cycle.iter().any(|(_, edge)| edge.note.absent_in_range && edge.why == Why::Rw);
    let in_time = if count(Why::Time) > 0 { "-realtime" } else { "" };
    let (class, usual) = match (count(Why::Rw), count(Why::Wr)) {
        (0, 0) => ("G0", "dirty write"),
        (0, _) => ("G1c", "circular information flow"),
        (1, _) if is_phantom => ("G-single", "phantom"),
        (1, 0) if is_of_one_key && count(Why::Ww) > 0 => ("G-single", "lost update"),
        (1, 0) if count(Why::Time) > 0 => ("G-single", "stale read"),
        (1, _) => ("G-single", "read skew"),
        _ if is_phantom => ("G2", "phantom"),
        (2, 0) if is_of_one_key => ("G2-item", "lost update"),
        (2, 0) if cycle.len() == 2 => ("G2-item", "write skew"),
        _ => ("G2-item", "anti-dependency cycle"),
    };
    format!("{class}{in_time}, {usual}")
}
