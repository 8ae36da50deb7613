//! Figures 3 and 10 to 12 with invented outcomes: what is run, what is drawn, and what is judged.

use super::*;
use crate::figures::{Host, Judgement};
use crate::workload::Beside;
use crate::{Alluvium, Step};
use std::path::Path;

/// Outcomes that follow from the engine's name and the step.
struct Invented(fn(&str, &Step) -> Outcome);

impl Host for Invented {
    fn run(&self, factory: &dyn Factory, _: &Path, steps: &[Step]) -> Result<Vec<Ran>> {
        Ok(steps.iter().map(|step| Ok((self.0)(factory.name(), step))).collect())
    }
}

fn draw(figure: &Figure, outcome: fn(&str, &Step) -> Outcome, cores: usize) -> Drawing {
    let host = Invented(outcome);
    let mut stage = Stage::new(Path::new("."), &host);
    (stage.memory, stage.cores) = (Some(1 << 30), cores);
    (figure.draw)(figure, &stage, &[&Alluvium]).unwrap()
}

/// The judgement of the rule that begins with this text.
fn judged(drawing: &Drawing, rule: &str) -> Judgement {
    drawing.rulings.iter().find(|ruling| ruling.rule.starts_with(rule)).unwrap().judgement
}

/// Two levels need the same time at every size; a skiplist alone needs a microsecond for every 16 MiB.
fn latencies(engine: &str, step: &Step) -> Outcome {
    let mebibytes = (step.settings.engine.write_buffer.unwrap() >> 20) as f64;
    let put = if engine == SINGLE { mebibytes / 16.0 } else { 2.0 };
    if let Job::Mix(mix) = &step.workload.job {
        assert_eq!((step.settings.threads, mix.read, mix.beside), (8, 1, Some(Beside::Writer)));
    }
    let (background_p50_us, background_p99_us) = (Some(put), Some(10.0 * put));
    Outcome { p50_us: 1.0, p99_us: 5.0, background_p50_us, background_p99_us, ..Outcome::default() }
}

#[test]
fn latencies_of_puts_and_gets_are_drawn_by_size() {
    let drawing = draw(&LATENCY, latencies, 2);
    let at = |panel: usize, engine, size| drawing.panels[panel].line(engine).unwrap().at(size);
    assert_eq!([0, 1, 2, 3].map(|panel| at(panel, "alluvium", "64")), [1.0, 5.0, 2.0, 20.0].map(Some));
    assert_eq!(["16", "64", "128"].map(|size| at(2, SINGLE, size)), [1.0, 4.0, 8.0].map(Some));
    let held = |rule| judged(&drawing, rule);
    assert_eq!(held("median of puts: single-level at 128 at least 1 times"), Judgement::Holds);
    assert_eq!(held("median of puts: ours at 128 not above"), Judgement::Holds);
    assert_eq!(held("median of puts, 128: at most 1.00 times single-level"), Judgement::Holds);
    assert_eq!(held("median of puts: rocksdb"), Judgement::NotJudged);
    let reversed =
        draw(&LATENCY, |engine, step| latencies(if engine == SINGLE { "alluvium" } else { SINGLE }, step), 2);
    let fails =
        ["99th percentile of puts: ours at 128 not above", "median of puts, 128: at most 1.00 times single-level"];
    assert_eq!(fails.map(|rule| judged(&reversed, rule)), [Judgement::Fails; 2]);
}

/// A thread does a million operations a second, and so does the writer beside them.
fn by_thread(_: &str, step: &Step) -> Outcome {
    let ops_per_s = step.settings.threads as f64 * 1e6;
    match &step.workload.job {
        Job::Mix(mix) if mix.beside.is_some() => Outcome { ops_per_s, background_ops_per_s: 1e6, ..Outcome::default() },
        _ => Outcome { ops_per_s, ..Outcome::default() },
    }
}

#[test]
fn gets_are_of_data_loaded_in_key_order_and_should_scale() {
    fn in_order(engine: &str, step: &Step) -> Outcome {
        let order = Job::Fill { order: Order::Sequential, arrival: Arrival::Ascending };
        assert!(!step.workload.fills() || step.workload.job == order);
        by_thread(engine, step)
    }
    let scales = "gets: best throughput at least";
    assert_eq!(judged(&draw(&READS, in_order, 4), scales), Judgement::Holds);
    assert_eq!(
        judged(&draw(&READS, |_, _| Outcome { ops_per_s: 1e6, ..Outcome::default() }, 4), scales),
        Judgement::Fails
    );
    assert_eq!(judged(&draw(&READS, in_order, 1), scales), Judgement::NotJudged);
}

#[test]
fn claims_on_writers_need_four_cores() {
    let scales = "gets, inserts and deletes: best throughput at least";
    let on_cores = |cores| judged(&draw(&MIXED, by_thread, cores), scales);
    assert_eq!([2, 4].map(on_cores), [Judgement::NotJudged, Judgement::Holds]);
}

#[test]
fn the_writer_beside_counts_and_is_drawn_alone() {
    let drawing = draw(&ONE_WRITER, by_thread, 2);
    let at = |panel: usize, readers| drawing.panels[panel].line("alluvium").unwrap().at(readers);
    assert_eq!([at(0, "1"), at(0, "8"), at(1, "8")], [2e6, 9e6, 1e6].map(Some));
    assert_eq!(judged(&drawing, "gets beside a writer: our best at least 1 times single-level"), Judgement::Holds);
}
