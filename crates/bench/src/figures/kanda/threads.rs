//! Figure 4: look-ups by threads, and by how much the look-ups cluster.
//!
//! The paper says once that throughput converges at 3 threads and once at 6. Threads that share cores cannot be faster than
//! as many threads as cores, so two threads are judged on two cores, and more only on more cores.

use super::{Buffer, GETS, Load, MILLION, Place, Series, Work, marks, rate};
use crate::choice::Choice;
use crate::engine::{Factory, Result};
use crate::figures::host::Ran;
use crate::figures::stage::Stage;
use crate::figures::{Figure, rules};
use crate::session::Step;
use crate::settings::Settings;
use crate::workload::{Job, Mix, Workload};

const KEYS: u64 = 3 * MILLION;
const THREADS_MAX: usize = 8;
/// From evenly spread to highly clustered.
const SKEWS: [(&str, Choice); 3] = [
    ("even look-ups", Choice::Uniform),
    ("normal look-ups", Choice::Normal),
    ("clustered look-ups", Choice::Exponential),
];
/// What two threads are to gain over one, and the best number of threads over one.
const AT_TWO: f64 = 1.5;
const AT_BEST: f64 = 2.0;
const CORES_MIN: usize = 4;
/// Look-ups for each key before anything is measured.
const WARM_UP: u64 = 3;
/// Gains that differ by less than this fraction are noise.
const SLACK: f64 = 0.1;

/// Figure 4.
pub const THREADS: Figure = Figure {
    name: "kanda-threads",
    source: "Kanda, figure 4",
    claim: "look-ups by 1 to 8 threads: the more they cluster, the more each thread adds; converges at 3 to 6 threads",
    draw: |figure, stage, engines| {
        let keys = stage.num.unwrap_or(KEYS);
        let threads = threads(stage);
        let places: Vec<Place> = threads.iter().map(|threads| (threads.to_string(), *threads as f64)).collect();
        let mut all = SKEWS.map(|_| Vec::new());
        for factory in engines {
            let ran = run(stage, *factory, keys, &threads)?;
            for (series, ran) in all.iter_mut().zip(ran.chunks(threads.len())) {
                series.push(Series { engine: factory.name().into(), ran: ran.to_vec() });
            }
        }
        let panels: Vec<_> = SKEWS
            .iter()
            .zip(&all)
            .map(|((title, _), series)| super::panel(((*title).into(), "threads", GETS), &places, series, None, rate))
            .collect();
        let mut rulings = Vec::new();
        for panel in &panels {
            rulings.push(marks::two_threads(panel, AT_TWO, stage.cores));
            rulings.push(rules::scales(panel, AT_BEST, stage.cores, CORES_MIN));
        }
        // Where threads share cores, more than two say nothing.
        let judged = if stage.cores < CORES_MIN { "2" } else { &places[places.len() - 1].0 };
        rulings.push(marks::gains_more(&panels[2], &panels[0], judged, SLACK));
        let conditions = vec![
            format!("{keys} keys (the paper: 3 million), default buffer; each number of threads on the same loaded store"),
            "even: uniform; normal: a normal distribution over all keys, as in the paper; clustered: an exponential one with a \
             mean of a thousandth of the keys, which are neighbours"
                .into(),
        ];
        Ok(super::drawing(figure, stage, conditions, panels, rulings))
    },
};

fn threads(stage: &Stage<'_>) -> Vec<usize> {
    (1..=stage.threads_max.unwrap_or(THREADS_MAX).clamp(1, THREADS_MAX)).collect()
}

/// All points of all skews, after the load and as many look-ups as warm the caches.
fn run(stage: &Stage<'_>, factory: &dyn Factory, keys: u64, threads: &[usize]) -> Result<Vec<Ran>> {
    let lookups = |choice| Mix { read: 1, choice: Some(choice), ..Mix::default() };
    let load = Load::new(keys, Buffer::Usual);
    let settings = Settings { ops: Some(keys * WARM_UP), ..load.settings(stage) };
    let warm_up = Workload { name: "warm-up".into(), job: Job::Mix(lookups(Choice::Uniform)) };
    let mut steps = vec![load.load(stage), Step { settings, workload: warm_up }];
    let work = |name, choice, threads| -> Work { (format!("{name}, {threads} threads"), threads, lookups(choice)) };
    let works = SKEWS.iter().flat_map(|(name, choice)| threads.iter().map(|threads| work(*name, *choice, *threads)));
    steps.extend(load.timed(stage, works.collect()));
    Ok(stage.run(factory, steps)?.into_iter().skip(2).collect())
}
