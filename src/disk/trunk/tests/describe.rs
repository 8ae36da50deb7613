//! Trees as text, for goldens and for messages of failing tests.

use crate::disk::trunk::Tree;
use crate::disk::trunk::tree::node::Node;
use std::fmt::Write;

impl Tree {
    /// The whole structure as text.
    pub fn describe(&self) -> String {
        let mut text = String::new();
        describe(self.root(), 0, &mut text);
        text
    }
}

fn describe(node: &Node, depth: usize, text: &mut String) {
    let indent = "  ".repeat(depth);
    let upper = node.upper.as_ref().map_or("end".to_owned(), |upper| printable(upper));
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{indent}node {} [{}, {upper})", node.id.0, printable(&node.lower));
    for bundle in &node.bundles {
        let files: Vec<_> = bundle.branches.iter().map(|branch| branch.meta().file.0.to_string()).collect();
        let _ = writeln!(text, "{indent}  bundle {}: {} in {} runs", bundle.id.0, files.join(" "), bundle.runs);
        let hiding: u64 = bundle.branches.iter().map(|branch| branch.meta().range_tombstones).sum();
        if hiding > 0 {
            let _ = writeln!(text, "{indent}    with {hiding} range tombstones");
        }
    }
    for (at, slot) in node.slots.iter().enumerate() {
        let maplets: Vec<_> = slot.maplet_index.maplets().map(|maplet| maplet.meta().file.0.to_string()).collect();
        if !maplets.is_empty() {
            let _ = writeln!(text, "{indent}  slot {at} has maplets {}", maplets.join(" "));
        }
    }
    for pivot in &node.pivots {
        let active: Vec<_> = node.bundles[pivot.first_active..].iter().map(|bundle| bundle.id.0.to_string()).collect();
        if !active.is_empty() {
            let _ = writeln!(text, "{indent}  for {}: {}", printable(&pivot.lower), active.join(" "));
        }
        describe(&pivot.child, depth + 1, text);
    }
}

/// A readable key: its text after the keyspace id, or its bytes.
fn printable(key: &[u8]) -> String {
    match key.split_first_chunk::<4>() {
        Some((keyspace, rest)) => {
            let id = u32::from_be_bytes(*keyspace);
            let prefix = if id == 0 { String::new() } else { format!("{id}/") };
            format!("{prefix}{}", rest.escape_ascii())
        }
        None if key.is_empty() => "start".to_owned(),
        None => key.escape_ascii().to_string(),
    }
}
