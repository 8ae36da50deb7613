//! Figure 8: reads and writes by the size of the memory component.

use super::{POPULAR, Scale, rate, run};
use crate::engine::EngineOptions;
use crate::figures::drawing::{Drawing, Line, Panel};
use crate::figures::stage::Stage;
use crate::figures::{Figure, rules};
use crate::settings::Settings;
use crate::workload::Mix;

const SCALE: Scale = Scale { keys: 1_000_000, key_bytes: 8, value_bytes: 256, memory: 2 << 30, paper: "150 GB" };
/// "with 8 working threads".
const THREADS: usize = 8;

/// Figure 8.
pub const MEMORY_SIZE: Figure = Figure {
    name: "clsm-8",
    source: "cLSM, figure 8",
    claim: "gets and puts 1:1 with 8 threads: the throughput rises with the memory component up to 512 MB, where LevelDB's ends at 16",
    draw: |figure, stage, engines| {
        let threads = stage.threads().into_iter().filter(|threads| *threads <= THREADS).max().unwrap_or(1);
        let mix = Mix { read: 1, overwrite: 1, choice: Some(POPULAR), ..Mix::default() };
        let sizes = sizes(stage);
        let names: Vec<String> = sizes.iter().map(|size| name(*size)).collect();
        let mut lines = Vec::new();
        for engine in engines {
            let mut ran = Vec::new();
            for (size, name) in sizes.iter().zip(&names) {
                let settings = SCALE.settings(stage);
                let options = EngineOptions { write_buffer: Some(*size), ..settings.engine };
                let settings = Settings { engine: options, ..settings };
                ran.extend(run(stage, *engine, &settings, &format!("component of {name}"), &[(threads, mix.clone())])?);
            }
            let places = names.iter().zip(&sizes).map(|(name, size)| (&name[..], *size as f64 / (1 << 20) as f64));
            lines.push(Line::of(engine.name(), places, &ran, rate));
        }
        let panel = Panel {
            title: "gets and puts".into(),
            x: "memory component, MiB".into(),
            y: "operations a second".into(),
            x_measured: false,
            lines,
        };
        let mut rulings = vec![rules::ahead_of_all(&panel, 1.0)];
        if let [first, .., last] = &names[..] {
            rulings.push(rules::rises(&panel, first, last, 1.0));
        }
        let mut conditions = SCALE.conditions(stage);
        conditions.push(format!("{threads} threads; a new store for each point"));
        Ok(Drawing::of(figure, conditions, vec![panel], rulings))
    },
};

/// 1 to 128 MiB, or fractions of the memory that the user gave.
fn sizes(stage: &Stage<'_>) -> Vec<u64> {
    match stage.memory {
        Some(memory) => [64, 16, 8].map(|part| memory / part).into(),
        None => [1, 4, 16, 64, 128].map(|mebibytes| mebibytes << 20).into(),
    }
}

fn name(size: u64) -> String {
    if size < 1 << 20 { format!("{} KiB", size >> 10) } else { format!("{} MiB", size >> 20) }
}
