//! Figures of papers with other stores: the framework is `alluvium-bench`'s, and every engine runs in child processes
//! (`children`), which the kernel limits to the engine's memory if cgroups can be created.

use crate::arguments::Figures;
use crate::children::Children;
use crate::compare::BACKGROUND_THREADS;
use crate::engines::{self, KindFactory};
use crate::launch::Launcher;
use crate::machine::cgroup::Parent;
use crate::machine::stale;
use crate::text::{count, figures};
use alluvium_bench::Factory;
use alluvium_bench::figures::{Drawing, Figure, Panel, Point, Stage, named, plot};
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, ColumnConstraint, Table, Width};
use std::fs;
use std::time::Duration;

/// The maximum width of a cell before it wraps: a death's cell says why.
const CELL_WIDTH: u16 = 24;

/// Runs figures and prints them; also writes each to the results directory. Reports deaths at the end.
///
/// # Errors
/// A name that no figure or engine has, a file that cannot be written.
pub fn run(arguments: &Figures) -> Result<Option<String>, String> {
    let wanted = wanted(&arguments.names)?;
    let selection = engines::select(&arguments.engines, false)?;
    for (name, why) in &selection.skipped {
        eprintln!("skipped {name}: {why}");
    }
    fs::create_dir_all(&arguments.results).map_err(|error| format!("{}: {error}", arguments.results.display()))?;
    let parent = arguments.directory.clone().unwrap_or_else(std::env::temp_dir);
    stale::remove_stores(&parent);
    let stores = parent.join(format!("{}{}-figures", stale::PREFIX, std::process::id()));
    // Children open the stores, by the engines' names.
    let factories: Vec<KindFactory> =
        selection.taken.iter().map(|kind| KindFactory::new(kind, 0, BACKGROUND_THREADS)).collect();
    let factories: Vec<&dyn Factory> = factories.iter().map(|factory| factory as &dyn Factory).collect();
    let limits = if arguments.no_limit { Err("--no-limit".to_owned()) } else { Parent::permitted() };
    let held = match &limits {
        Ok(_) => "the kernel limits memory, page cache included".to_owned(),
        Err(why) => format!("memory is what engines are configured with, without the page cache: no limit ({why})"),
    };
    if limits.is_err() {
        eprintln!("{held}");
    }
    let launcher = Launcher::new(limits.ok())?;
    let children = Children::new(&launcher);
    let mut died = Vec::new();
    for figure in wanted {
        let mut stage = Stage::new(&stores, &children);
        (stage.num, stage.memory, stage.threads_max) =
            (arguments.num, arguments.memory, arguments.threads.map(usize::from));
        stage.duration = Duration::from_secs_f64(arguments.seconds);
        let drawn = (figure.draw)(figure, &stage, &factories);
        // Children removed their stores; the directory around them remains.
        let _ = fs::remove_dir_all(&stores);
        let mut drawing = drawn.map_err(|error| format!("{}: {error}", figure.name))?;
        drawing.conditions.push(held.clone());
        print(&drawing);
        let path = arguments.results.join(format!("figure-{}.json", figure.name));
        let text = serde_json::to_string_pretty(&drawing).map_err(|error| error.to_string())?;
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        println!("{}\n", path.display());
        died.extend(children.died().iter().map(|engine| format!("{}: {engine}", figure.name)));
    }
    Ok((!died.is_empty()).then(|| format!("{} died: {}", died.len(), died.join("; "))))
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

/// A row per engine, a column per point.
fn numbers(panel: &Panel) -> Table {
    let number = |number: Option<f64>| match number {
        Some(height) if height >= 1000.0 => count(height),
        Some(height) => figures(height),
        None => String::new(),
    };
    let cell = |point: Option<&Point>| match point.and_then(|point| point.died.as_ref()) {
        Some(death) => death.to_string(),
        None => number(point.and_then(|point| point.y)),
    };
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    table.set_header(std::iter::once(panel.y.as_str()).chain(panel.names()));
    for line in &panel.lines {
        let cells = panel.names().into_iter().map(|name| cell(line.point(name)));
        table.add_row(std::iter::once(line.engine.clone()).chain(cells));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
        column.set_constraint(ColumnConstraint::UpperBoundary(Width::Fixed(CELL_WIDTH)));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvium_bench::figures::{Death, Line};

    #[test]
    fn figures_have_names() {
        let names = |names: &[&str]| -> Vec<&str> {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            wanted(&names).unwrap().iter().map(|figure| figure.name).collect()
        };
        assert_eq!(names(&["clsm-6", "splinterdb-9"]), ["clsm-6", "splinterdb-9"]);
        assert_eq!(names(&["clsm-6", "clsm"])[..3], ["clsm-6", "clsm-1", "clsm-5"]);
        assert!(wanted(&["nosuch".to_owned()]).err().unwrap().contains("nosuch"));
    }

    #[test]
    fn a_panel_is_a_table_of_engines_by_points() {
        let lines = vec![
            Line {
                engine: "alluvium".into(),
                points: vec![Point::at("1", 1.0, 250_000.0), Point::at("2", 2.0, 500.0)],
            },
            Line { engine: "rocksdb".into(), points: vec![Point::at("2", 2.0, 1.5)] },
        ];
        let mut panel = Panel { y: "ops/s".into(), lines, ..Panel::default() };
        let text = numbers(&panel).to_string();
        for part in ["ops/s", "│ alluvium ┆ 250k ┆  500 │", "│ rocksdb  ┆      ┆ 1.50 │"] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        let death = Death {
            why: "killed at its memory limit of 96 MiB".into(),
            peak_bytes: Some(96 << 20),
            ..Death::default()
        };
        panel.lines[1].points[0] = Point::dead("2", Some(2.0), &death);
        let text = numbers(&panel).to_string();
        let words = ["died:", "killed", "memory", "limit", "96", "MiB,", "peak", "96.0"];
        assert!(words.iter().all(|word| text.contains(word)) && !text.contains("1.50"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() < 60), "{text}");
    }
}
