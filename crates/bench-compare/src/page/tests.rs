//! The page contains what was measured, is self-contained, and escapes text.

use super::*;
use crate::record::Record;
use crate::summary::groups;
use alluvium_bench::Outcome;
use alluvium_bench::outcome::{Percentile, Sample};

fn record(engine: &str, threads: usize, ops_per_s: f64) -> Record {
    let outcome = Outcome {
        engine: engine.into(),
        workload: "fillrandom".into(),
        threads,
        ops_per_s,
        write_amp: Some(2.0),
        latency: vec![Percentile { percent: 50.0, us: 2.0 }, Percentile { percent: 100.0, us: 9000.0 }],
        series: vec![Sample { at_s: 0.1, ops_per_s }, Sample { at_s: 0.2, ops_per_s: 0.0 }],
        ..Outcome::default()
    };
    let settings = [("cache".to_owned(), "<64 & more>".to_owned())].into();
    Record { outcome, settings, repeat: 1, path: "fillrandom".into(), version: "1.2.3".into(), ..Record::default() }
}

fn page(records: &[Record]) -> String {
    let machine = Machine { processor: "A <CPU>".into(), ..Machine::default() };
    render(&groups(records, &["alluvium", "rocksdb"]), &machine, "0123abc")
}

#[test]
fn it_needs_nothing_from_outside() {
    let page = page(&[record("alluvium", 1, 6e5), record("rocksdb", 1, 2e5)]);
    for outside in ["http:", "https:", "//", "src=", "href=", "url(", "@import", "<script", "<link"] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn text_is_shown_as_text() {
    let page = page(&[record("alluvium", 1, 6e5)]);
    assert!(page.contains("&lt;64 &amp; more&gt;") && page.contains("A &lt;CPU&gt;"));
    assert!(!page.contains("<CPU>"));
}

#[test]
fn it_has_figures_ratios_and_every_kind_of_plot() {
    let records =
        [record("alluvium", 1, 6e5), record("rocksdb", 1, 2e5), record("alluvium", 2, 9e5), record("rocksdb", 2, 1e5)];
    let page = page(&records);
    for part in [
        "600k/s",
        "200k/s; ours 3.00x",
        "By threads",
        "Speed",
        "Processor time",
        "Over time",
        "Latency",
        "Write amplification",
        "Space amplification",
        "Settings of the engines",
        "rocksdb 1.2.3",
        "0123abc",
        "2 threads",
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert!(!self::page(&records[..2]).contains("By threads"));
}

#[test]
fn every_element_is_closed() {
    let page = page(&[record("alluvium", 1, 6e5), record("rocksdb", 2, 2e5)]);
    for element in ["svg", "div", "figure", "table", "details", "ul", "h2", "h3", "h4", "dl", "tr", "text", "title"] {
        let opened = page.matches(&format!("<{element} ")).count() + page.matches(&format!("<{element}>")).count();
        assert_eq!(opened, page.matches(&format!("</{element}>")).count(), "{element}");
        assert!(opened > 0, "{element}");
    }
}

#[test]
fn nothing_measured_is_still_a_page() {
    assert!(page(&[]).contains("</html>"));
    let bare = Record { outcome: Outcome { engine: "alluvium".into(), ..Outcome::default() }, ..Record::default() };
    assert!(page(&[bare]).contains("</html>"));
}
