//! The page of plots: one self-contained HTML file, for phones and desktops, light or dark.
//!
//! `cards` draws the plots of a workload, `parts` writes the rest of the page; the other files are drawings.

mod bars;
mod cards;
mod escape;
mod lines;
mod parts;
mod scale;
mod stalls;
mod svg;

use crate::machine::about::Machine;
use crate::record::Conditions;
use crate::summary::Group;
use escape::escape;

/// Self-contained: style, drawings and text are all in the file.
const STYLE: &str = include_str!("style.css");

/// The page.
pub fn render(groups: &[Group<'_>], machine: &Machine, commit: &str) -> String {
    let mut body = parts::header(groups, machine, commit);
    for (conditions, part) in by_load(groups) {
        body.push_str(&parts::conditions(&conditions));
        body.push_str(&parts::glance(part));
        for group in part {
            body.push_str(&cards::workload(group));
        }
        body.push_str(&cards::scaling(part));
    }
    body.push_str(&parts::tables(groups));
    body.push_str(&parts::settings(groups));
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n{body}</body>\n</html>\n",
        escape(parts::TITLE)
    )
}

/// Splits the sorted groups where something other than the number of threads changes.
fn by_load<'a, 'b>(groups: &'b [Group<'a>]) -> Vec<(Conditions, &'b [Group<'a>])> {
    let load = |group: &Group<'_>| Conditions { threads: 0, ..group.conditions.clone() };
    groups.chunk_by(|a, b| load(a) == load(b)).map(|part| (load(&part[0]), part)).collect()
}

#[cfg(test)]
mod tests;
