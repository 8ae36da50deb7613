//! Figures of papers with rivals in them: the frame is `alluvium-bench`'s, which runs all engines of a figure one after the
//! other in this process; so their memory is what each was set to, not a limit that the kernel holds.

use crate::arguments::Figures;
use crate::engines::{self, KindFactory};
use crate::text::{count, figures};
use alluvium_bench::Factory;
use alluvium_bench::figures::{ALL, Drawing, Figure, Panel, Stage, named, plot};
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};
use std::fs;
use std::time::Duration;

/// Threads for background work, as in the comparison.
const BACKGROUND_THREADS: usize = 2;
/// Bytes of keys and values where the figure decides: what engines that make a file of fixed size prepare for.
const DATA_BYTES: u64 = 1 << 30;

/// Runs figures and prints them; each goes to the folder of results, too.
///
/// # Errors
/// A name that no figure or engine has, an engine that fails, a file that cannot be written.
pub fn run(arguments: &Figures) -> Result<(), String> {
    let wanted = wanted(&arguments.names)?;
    let selection = engines::select(&arguments.engines, false)?;
    for (name, why) in &selection.skipped {
        eprintln!("{name} is left out: {why}");
    }
    fs::create_dir_all(&arguments.results).map_err(|error| format!("{}: {error}", arguments.results.display()))?;
    let parent = arguments.directory.clone().unwrap_or_else(std::env::temp_dir);
    let stores = parent.join(format!("bench-compare-{}-figures", std::process::id()));
    let factories: Vec<KindFactory> =
        selection.taken.iter().map(|kind| KindFactory::new(kind, DATA_BYTES, BACKGROUND_THREADS)).collect();
    let factories: Vec<&dyn Factory> = factories.iter().map(|factory| factory as &dyn Factory).collect();
    for figure in wanted {
        let mut stage = Stage::new(&stores, &());
        (stage.num, stage.memory, stage.threads_max) = (arguments.num, arguments.memory, arguments.threads);
        stage.duration = Duration::from_secs_f64(arguments.seconds);
        let drawn = (figure.draw)(figure, &stage, &factories);
        // What an engine that failed left; the sessions of the others removed theirs.
        let _ = fs::remove_dir_all(&stores);
        let drawing = drawn.map_err(|error| format!("{}: {error}", figure.name))?;
        print(&drawing);
        let path = arguments.results.join(format!("figure-{}.json", figure.name));
        let text = serde_json::to_string_pretty(&drawing).map_err(|error| error.to_string())?;
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        println!("{}\n", path.display());
    }
    Ok(())
}

fn wanted(names: &[String]) -> Result<Vec<&'static Figure>, String> {
    if names.iter().any(|name| name == "all") {
        return Ok(ALL.iter().collect());
    }
    names.iter().map(|name| named(name).map_err(|error| error.to_string())).collect()
}

fn print(drawing: &Drawing) {
    println!("{}: {}", drawing.source, drawing.claim);
    drawing.conditions.iter().for_each(|condition| println!("  {condition}"));
    for panel in &drawing.panels {
        println!("\n{}\n{}\n{}", panel.title, numbers(panel), plot(panel));
    }
    for ruling in &drawing.rulings {
        println!("{}: {} ({})", ruling.judgement.text(), ruling.rule, ruling.why);
    }
}

/// An engine a line, a point a column.
fn numbers(panel: &Panel) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    let points = panel.lines.iter().map(|line| &line.points).max_by_key(|points| points.len());
    let names = points.into_iter().flatten().map(|point| point.name.clone());
    table.set_header(std::iter::once(panel.y.clone()).chain(names));
    for line in &panel.lines {
        let cells = line.points.iter().map(|point| match point.y {
            height if height >= 1000.0 => count(height),
            height => figures(height),
        });
        table.add_row(std::iter::once(line.engine.clone()).chain(cells));
    }
    table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvium_bench::figures::{Line, Point};

    #[test]
    fn figures_have_names() {
        assert_eq!(wanted(&["all".to_owned()]).unwrap().len(), ALL.len());
        assert_eq!(wanted(&[ALL[0].name.to_owned()]).unwrap()[0].name, ALL[0].name);
        assert!(wanted(&["nosuch".to_owned()]).err().unwrap().contains("nosuch"));
    }

    #[test]
    fn a_panel_is_a_table_of_engines_by_points() {
        let point = |name: &str, y| Point { name: name.into(), x: 1.0, y };
        let lines = vec![
            Line { engine: "alluvium".into(), points: vec![point("1", 250_000.0), point("2", 500.0)] },
            Line { engine: "rocksdb".into(), points: vec![point("1", 1.5)] },
        ];
        let panel = Panel { title: "t".into(), x: "threads".into(), y: "ops/s".into(), lines };
        let text = numbers(&panel).to_string();
        for part in ["ops/s", "alluvium", "250k", "500", "rocksdb", "1.50"] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
    }
}
