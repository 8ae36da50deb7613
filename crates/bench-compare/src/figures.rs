//! Figures of papers with rivals in them: the frame is `alluvium-bench`'s, which runs all engines of a figure one after the
//! other in this process. Where cgroups can be made, the kernel holds the process to each engine's memory (`machine::own_limit`).

use crate::arguments::Figures;
use crate::engines::{self, HARNESS_BYTES, KindFactory};
use crate::machine::cgroup::Parent;
use crate::machine::own_limit::OwnLimit;
use crate::text::{count, figures};
use alluvium_bench::Factory;
use alluvium_bench::engine::Result as EngineResult;
use alluvium_bench::figures::{Drawing, Figure, Hold, Panel, Stage, named, plot};
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
    let limit =
        if arguments.no_limit { Err("--no-limit".to_owned()) } else { Parent::find().and_then(OwnLimit::enter) };
    let held = match &limit {
        Ok(_) => "memory is a limit that the kernel holds, page cache included".to_owned(),
        Err(why) => format!("memory is what engines are set to, the page cache apart: no limit ({why})"),
    };
    if limit.is_err() {
        eprintln!("{held}");
    }
    let limit = Limit(limit.ok());
    for figure in wanted {
        let mut stage = Stage::new(&stores, &());
        stage.hold = &limit;
        (stage.num, stage.memory, stage.threads_max) = (arguments.num, arguments.memory, arguments.threads);
        stage.duration = Duration::from_secs_f64(arguments.seconds);
        let drawn = (figure.draw)(figure, &stage, &factories);
        // What an engine that failed left; the sessions of the others removed theirs.
        let _ = fs::remove_dir_all(&stores);
        let mut drawing = drawn.map_err(|error| format!("{}: {error}", figure.name))?;
        drawing.conditions.push(held.clone());
        print(&drawing);
        let path = arguments.results.join(format!("figure-{}.json", figure.name));
        let text = serde_json::to_string_pretty(&drawing).map_err(|error| error.to_string())?;
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        println!("{}\n", path.display());
    }
    Ok(())
}

/// Holds this process to what engines may use, where it can.
struct Limit(Option<OwnLimit>);

impl Hold for Limit {
    fn hold(&self, engine: &str, bytes: u64) -> EngineResult<()> {
        // Engines of the comparison leave room for the harness in what they are told; those that only figures know do not.
        let room = if engines::find(engine).is_some() { 0 } else { HARNESS_BYTES };
        Ok(self.0.as_ref().map_or(Ok(()), |limit| limit.beyond_now(bytes + room))?)
    }
}

fn wanted(names: &[String]) -> Result<Vec<&'static Figure>, String> {
    let each = names.iter().map(|name| named(name).map_err(|error| error.to_string()));
    Ok(each.collect::<Result<Vec<_>, String>>()?.concat())
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
        let names = |names: &[&str]| -> Vec<&str> {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            wanted(&names).unwrap().iter().map(|figure| figure.name).collect()
        };
        assert_eq!(names(&["clsm-6", "clsm"]), ["clsm-6", "clsm-5", "clsm-6", "clsm-7"]);
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
