//! `bench figures`: a paper's figure with our numbers, as tables, plots and rulings.

use crate::arguments::Common;
use crate::bench_arguments::Figures;
use crate::bench_progress::BenchProgress;
use crate::commands::bench;
use crate::failure::Failure;
use crate::output::Output;
use crate::report::{align_right, table};
use alluvium_bench::figures::{Drawing, Figure, Panel, Stage, named, plot};
use alluvium_bench::{Alluvium, Watch};
use comfy_table::Table;

/// Draws figures.
pub fn run(common: &Common, arguments: &Figures) -> Result<(), Failure> {
    let figures = figures(&arguments.names)?;
    if common.db.is_some() {
        return Err(Failure::Usage(
            "figures make stores of their own, in TMPDIR: leave --db and ALLUVIUM_DB out".into(),
        ));
    }
    let (temporary, progress) = (bench::temporary()?, BenchProgress::new());
    let mut stage = Stage::new(temporary.path(), &progress);
    (stage.num, stage.duration, stage.memory) = (arguments.num, arguments.duration, common.memory);
    (stage.threads_max, stage.check) = (arguments.threads.map(usize::from), arguments.check);
    let drawn = figures.iter().try_for_each(|figure| {
        let drawing = (figure.draw)(figure, &stage, &[&Alluvium]);
        progress.end();
        print(&drawing?, common.json)
    });
    let removed = bench::close(temporary);
    drawn.and(removed)
}

fn figures(names: &str) -> Result<Vec<&'static Figure>, Failure> {
    let each = names.split(',').map(|name| named(name.trim()).map_err(Failure::from));
    Ok(each.collect::<Result<Vec<_>, Failure>>()?.concat())
}

fn print(drawing: &Drawing, json: bool) -> Result<(), Failure> {
    let mut output = Output::new();
    if json {
        output.line(serde_json::to_string(drawing).map_err(|error| Failure::Output(error.into()))?)?;
        return output.finish();
    }
    output.line(format_args!("{}: {}", drawing.source, drawing.claim))?;
    for condition in &drawing.conditions {
        output.line(format_args!("  {condition}"))?;
    }
    for panel in &drawing.panels {
        output.line(format_args!("\n{}", panel.title))?;
        output.line(numbers(panel))?;
        output.line(plot(panel))?;
    }
    for ruling in &drawing.rulings {
        output.line(format_args!("{}: {} ({})", ruling.judgement.text(), ruling.rule, ruling.why))?;
    }
    output.finish()
}

/// A panel's points: a row for each, two columns for each engine.
fn numbers(panel: &Panel) -> Table {
    let mut heads = vec!["point".to_string()];
    let columns = |engine: &str| [format!("{engine}: {}", panel.x), format!("{engine}: {}", panel.y)];
    heads.extend(panel.lines.iter().flat_map(|line| columns(&line.engine)));
    let mut table = table(&heads.iter().map(String::as_str).collect::<Vec<_>>());
    let rows = panel.lines.iter().map(|line| line.points.len()).max().unwrap_or(0);
    for at in 0..rows {
        let name = panel.lines.iter().find_map(|line| line.points.get(at)).map_or("", |point| &point.name);
        let cells = panel.lines.iter().flat_map(|line| match line.points.get(at) {
            Some(point) => [format!("{:.0}", point.x), format!("{:.2}", point.y)],
            None => [String::new(), String::new()],
        });
        table.add_row(std::iter::once(name.to_string()).chain(cells));
    }
    align_right(&mut table, 1);
    table
}
