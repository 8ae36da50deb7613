//! Figures 3 (with 4), 15 and 16: by the size of the memory component.

use super::{MEMORY, Place, SINGLE, drawing, fill, panels, rate, settings};
use crate::choice::Choice;
use crate::engine::{EngineOptions, Factory, Result};
use crate::figures::host::Ran;
use crate::figures::stage::Stage;
use crate::figures::{Figure, rules};
use crate::keys::Order;
use crate::session::Step;
use crate::settings::Settings;
use crate::workload::{Beside, Job, Mix, Workload};
use std::time::Duration;

/// Section 5.4.
const SKEW: Choice = Choice::Hot { operations_percent: 98, keys_percent: 2, block: 1 };
/// "eight reader threads and one writer thread" (section 2.3).
const READERS: usize = 8;

/// Figures 3 and 4: latencies of one writer and its readers. In the paper the component is a skiplist in figure 3 and a
/// hash table in figure 4, both RocksDB's.
pub const LATENCY: Figure = Figure {
    name: "flodb-3",
    source: "FloDB, figures 3 and 4",
    claim: "8 readers and a writer: with a single level, a skiplist or a hash table, writes take longer the larger the memory \
            component is; with two levels they need not",
    draw: |figure, stage, engines| {
        let sizes = write_buffers(stage);
        let readers = stage.threads().into_iter().filter(|threads| *threads <= READERS).max().unwrap_or(1);
        let mix = Mix { read: 1, choice: Some(Choice::Uniform), beside: Some(Beside::Writer), ..Mix::default() };
        let ran = |factory: &dyn Factory| on_sizes(factory, stage, &sizes, readers, &mix, "gets beside a writer");
        let texts = |title| (title, "memory component, MiB", "microseconds");
        let panels = panels(
            [
                (texts("median of gets"), |outcome| Some(outcome.p50_us)),
                (texts("99th percentile of gets"), |outcome| Some(outcome.p99_us)),
                (texts("median of puts"), |outcome| outcome.background_p50_us),
                (texts("99th percentile of puts"), |outcome| outcome.background_p99_us),
            ],
            engines,
            &by_size(&sizes),
            ran,
        )?;
        let (first, last) = ends(&sizes);
        let [_, _, puts, slow_puts] = &panels;
        let mut rulings = Vec::new();
        for panel in [puts, slow_puts] {
            rulings.extend(["rocksdb", SINGLE].map(|engine| rules::rises_of(panel, engine, &first, &last, 1.0)));
            rulings.push(rules::falls(panel, &first, &last));
        }
        rulings.extend(["rocksdb", SINGLE].map(|other| rules::below_at(puts, &last, other, 1.0)));
        let mut drawing = drawing(figure, stage, panels.into(), rulings);
        drawing.conditions.push(format!("{readers} readers and one writer; a new store for each size"));
        Ok(drawing)
    },
};

/// Figure 15: a burst of writes by the size of the memory component.
pub const MEMORY_SIZE: Figure = Figure {
    name: "flodb-15",
    source: "FloDB, figure 15",
    claim: "a ten-second burst of writes: throughput rises with the memory component's size, where single-level stores' falls; \
            2.3 times the next best at every size",
    draw: |figure, stage, engines| {
        let sizes = write_buffers(stage);
        let ran = |factory: &dyn Factory| {
            let point = |size: &u64| {
                let settings = stage.settings(Settings { num: Some(1000), ..sized(*size) });
                let job = Job::Mix(Mix { insert: 1, ..Mix::default() });
                let workload = Workload { name: format!("burst, {} MiB", size >> 20), job };
                let mut step = stage.timed(&settings, stage.cores, workload);
                // The burst alone, without the background work that it leaves.
                (step.settings.duration, step.settings.settle) = (Some(burst(stage)), false);
                last(stage.run(factory, vec![Step { settings, workload: fill("first keys", Order::Random) }, step])?)
            };
            sizes.iter().map(point).collect()
        };
        let texts = ("burst", "memory component, MiB", "puts a second");
        let [panel] = panels([(texts, rate)], engines, &by_size(&sizes), ran)?;
        let (first, last) = ends(&sizes);
        let mut rulings = vec![rules::rises(&panel, &first, &last, 1.0)];
        rulings.extend(sizes.iter().map(|size| rules::ahead_at(&panel, &mebibytes(*size), SINGLE, 1.0)));
        rulings.extend(sizes.iter().map(|size| rules::ahead_at(&panel, &mebibytes(*size), "rocksdb", 2.3)));
        let mut drawing = drawing(figure, stage, vec![panel], rulings);
        drawing.conditions.push(format!("each burst takes {:.1} s", burst(stage).as_secs_f64()));
        Ok(drawing)
    },
};

/// Figure 16: skewed reads and writes by the size of the memory component.
pub const SKEWED: Figure = Figure {
    name: "flodb-16",
    source: "FloDB, figure 16",
    claim: "half reads, half updates, 98% of them on 2% of the keys: updates in place keep the popular keys in memory, 8 times the \
            next best on average",
    draw: |figure, stage, engines| {
        let sizes = write_buffers(stage);
        let mix = Mix { read: 1, overwrite: 1, choice: Some(SKEW), ..Mix::default() };
        let ran = |factory: &dyn Factory| on_sizes(factory, stage, &sizes, stage.cores, &mix, "98/2");
        let texts = ("98% on 2%", "memory component, MiB", "operations a second");
        let [panel] = panels([(texts, rate)], engines, &by_size(&sizes), ran)?;
        let mut rulings = vec![rules::best_ahead_of(&panel, SINGLE, 5.0)];
        rulings.push(rules::best_ahead_of(&panel, "splinterdb", 3.0));
        rulings.push(rules::best_ahead_of(&panel, "rocksdb", 8.0));
        Ok(drawing(figure, stage, vec![panel], rulings))
    },
};

/// A mix on stores with memory components of these sizes, each loaded in random order.
fn on_sizes(
    factory: &dyn Factory,
    stage: &Stage<'_>,
    sizes: &[u64],
    threads: usize,
    mix: &Mix,
    name: &str,
) -> Result<Vec<Ran>> {
    let point = |size: &u64| {
        let settings = stage.settings(sized(*size));
        let workload = Workload { name: format!("{name}, {} MiB", size >> 20), job: Job::Mix(mix.clone()) };
        let step = stage.timed(&settings, threads, workload);
        last(stage.run(factory, vec![Step { settings, workload: fill("load", Order::Random) }, step])?)
    };
    sizes.iter().map(point).collect()
}

/// With a memory component of this size, and memory in proportion.
fn sized(write_buffer: u64) -> Settings {
    let memory = (write_buffer * 8).max(MEMORY.min(write_buffer * 32));
    let engine = EngineOptions { memory: Some(memory), write_buffer: Some(write_buffer), ..EngineOptions::default() };
    Settings { engine, ..settings() }
}

/// Sizes of the memory component: from 16 MiB to 4 GiB, as long as the machine has eight times as much memory, or
/// fractions of the memory that the user gave.
fn write_buffers(stage: &Stage<'_>) -> Vec<u64> {
    match stage.memory {
        Some(memory) => [64, 16, 8].map(|part| memory / part).into(),
        None => {
            let most = stage.machine_memory() / 8;
            (0..5).map(|step| (16 << 20) << (2 * step)).filter(|size| *size <= most.max(64 << 20)).collect()
        }
    }
}

/// The paper's ten seconds if a point has three.
fn burst(stage: &Stage<'_>) -> Duration {
    stage.duration * 10 / 3
}

fn mebibytes(size: u64) -> String {
    if size < 1 << 20 { format!("{} KiB", size >> 10) } else { (size >> 20).to_string() }
}

/// The outcome of the step that a series is about.
fn last(mut ran: Vec<Ran>) -> Result<Ran> {
    ran.pop().ok_or_else(|| "a series without an outcome".into())
}

/// The names of the smallest and the largest size.
fn ends(sizes: &[u64]) -> (String, String) {
    (mebibytes(sizes[0]), mebibytes(sizes[sizes.len() - 1]))
}

fn by_size(sizes: &[u64]) -> Vec<Place> {
    sizes.iter().map(|size| (mebibytes(*size), (*size >> 20) as f64)).collect()
}
