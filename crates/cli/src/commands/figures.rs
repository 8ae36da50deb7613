//! `bench figures`: reproduces a paper's figure as tables, plots and checks of the paper's claims.

use crate::arguments::{Common, Component};
use crate::bench_arguments::Figures;
use crate::bench_progress::BenchProgress;
use crate::commands::bench;
use crate::failure::Failure;
use crate::output::Output;
use crate::report::{align_right, table};
use alluvium_bench::figures::{Drawing, Figure, InProcess, Panel, Stage, named, plot};
use alluvium_bench::{Alluvium, Progress};
use comfy_table::Table;

/// Draws figures.
pub fn run(common: &Common, arguments: &Figures) -> Result<(), Failure> {
    let figures = figures(&arguments.names)?;
    if common.db.is_some() {
        return Err(Failure::Usage("figures create their own stores in TMPDIR: remove --db and ALLUVIUM_DB".into()));
    }
    let (temporary, progress) = (bench::temporary()?, BenchProgress::new());
    let host = InProcess(&progress);
    let mut stage = Stage::new(temporary.path(), &host);
    (stage.num, stage.duration, stage.memory) = (arguments.num, arguments.duration, common.memory);
    stage.component = common.component.map(Component::for_bench);
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

/// The table of a panel: a row per point, a column per engine; two columns per engine if the x values were measured as
/// well.
fn numbers(panel: &Panel) -> Table {
    let mut heads = vec![if panel.x_measured { "point".to_string() } else { panel.x.clone() }];
    for line in &panel.lines {
        heads.extend(panel.x_measured.then(|| format!("{}: {}", line.engine, panel.x)));
        heads.push(format!("{}: {}", line.engine, panel.y));
    }
    let mut table = table(&heads.iter().map(String::as_str).collect::<Vec<_>>());
    for name in panel.names() {
        let mut cells = vec![name.to_string()];
        for point in panel.lines.iter().map(|line| line.point(name)) {
            let digits =
                |number: Option<f64>, digits| number.map_or(String::new(), |number| format!("{number:.digits$}"));
            cells.extend(panel.x_measured.then(|| digits(point.and_then(|point| point.x), 0)));
            let died = point.and_then(|point| point.died.as_ref()).map(ToString::to_string);
            cells.push(died.unwrap_or_else(|| digits(point.and_then(|point| point.y), 2)));
        }
        table.add_row(cells);
    }
    align_right(&mut table, 1);
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvium_bench::figures::{Line, Point};

    #[test]
    fn x_values_are_shown_only_if_they_were_measured() {
        let line =
            Line { engine: "alluvium".into(), points: vec![Point::at("load", 1.0, 250.0), Point::at("e", 7.0, 3.5)] };
        let mut panel = Panel { x: "phase".into(), y: "ops/s".into(), lines: vec![line], ..Panel::default() };
        let columns = |panel: &Panel| numbers(panel).column_iter().count();
        assert_eq!(columns(&panel), 2);
        let text = numbers(&panel).to_string();
        assert!(text.contains("phase") && text.contains("250.00") && !text.contains('7'), "{text}");
        panel.x_measured = true;
        assert_eq!(columns(&panel), 3);
        assert!(numbers(&panel).to_string().contains('7'));
    }
}
