//! Throughput over time, a row per engine, each over its own run, to show how even it is and where it stalls. The shape
//! is the mean of each short interval; the dark line under it is the minimum, so that even a short stall is visible.

use super::svg::{Anchor, Svg, WIDTH};
use crate::text::{count, figures};
use alluvium_bench::outcome::Sample;

const ROW: f64 = 52.0;
const TEXT: f64 = 12.0;
const SHAPE: f64 = 28.0;
/// Columns of a row; further samples share one.
const COLUMNS: usize = 180;

/// A row.
#[derive(Debug)]
pub struct Row<'a> {
    /// The engine.
    pub name: &'a str,
    /// The class of its color.
    pub class: &'static str,
    /// Its throughput.
    pub samples: &'a [Sample],
    /// The longest operation, ms.
    pub longest_ms: f64,
}

/// The drawing.
pub fn draw(rows: &[Row<'_>], title: &str) -> String {
    let mut svg = Svg::new(rows.len() as f64 * ROW, title);
    for (at, row) in rows.iter().enumerate() {
        draw_row(&mut svg, row, at as f64 * ROW);
    }
    svg.finish()
}

fn draw_row(svg: &mut Svg, row: &Row<'_>, top: f64) {
    let seconds = row.samples.last().map_or(0.0, |sample| sample.at_s);
    let columns = columns(row.samples, COLUMNS);
    let peak = columns.iter().map(|column| column.mean).fold(0.0, f64::max);
    let label = format!("up to {}/s, {} s, longest {} ms", count(peak), figures(seconds), figures(row.longest_ms));
    let tip = format!("{}: {label}", row.name);
    svg.text(&format!("name {}", row.class), (0.0, top + TEXT), Anchor::Start, row.name);
    svg.text("value", (WIDTH, top + TEXT), Anchor::End, &label);
    let bottom = top + TEXT + 6.0 + SHAPE;
    svg.line("grid", (0.0, bottom), (WIDTH, bottom));
    if peak <= 0.0 || seconds <= 0.0 {
        return;
    }
    let x = |at: f64| at / seconds * WIDTH;
    let y = |value: f64| bottom - value / peak * SHAPE;
    let mut shape = vec![(0.0, bottom)];
    let mut least = Vec::new();
    let mut start = 0.0;
    for column in &columns {
        shape.extend([(x(start), y(column.mean)), (x(column.at_s), y(column.mean))]);
        least.extend([(x(start), y(column.least)), (x(column.at_s), y(column.least))]);
        start = column.at_s;
    }
    shape.push((x(start), bottom));
    svg.area(&format!("bar pale {}", row.class), &shape, &tip);
    svg.path(&format!("line thin {}", row.class), &least, &tip);
}

/// Several samples in one.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Column {
    at_s: f64,
    mean: f64,
    least: f64,
}

fn columns(samples: &[Sample], most: usize) -> Vec<Column> {
    let each = samples.len().div_ceil(most).max(1);
    let mut start = 0.0;
    samples
        .chunks(each)
        .map(|chunk| {
            let mut operations = 0.0;
            let first = start;
            for sample in chunk {
                operations += sample.ops_per_s * (sample.at_s - start);
                start = sample.at_s;
            }
            let least = chunk.iter().map(|sample| sample.ops_per_s).fold(f64::INFINITY, f64::min);
            let mean = if start > first { operations / (start - first) } else { 0.0 };
            Column { at_s: start, mean, least }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at_s: f64, ops_per_s: f64) -> Sample {
        Sample { at_s, ops_per_s }
    }

    #[test]
    fn columns_keep_the_mean_and_the_least() {
        let samples = [sample(1.0, 10.0), sample(2.0, 0.0), sample(4.0, 20.0), sample(5.0, 8.0)];
        assert_eq!(
            columns(&samples, 2),
            [Column { at_s: 2.0, mean: 5.0, least: 0.0 }, Column { at_s: 5.0, mean: 16.0, least: 8.0 }]
        );
        assert_eq!(columns(&samples, 100).len(), 4);
        assert!(columns(&[], 100).is_empty());
    }

    #[test]
    fn an_engine_without_samples_still_has_its_row() {
        let rows = [
            Row { name: "one", class: "e0", samples: &[sample(1.0, 5.0)], longest_ms: 12.0 },
            Row { name: "two", class: "e1", samples: &[], longest_ms: 0.0 },
        ];
        let svg = draw(&rows, "t");
        assert_eq!(svg.matches("<polygon").count(), 1);
        assert!(svg.contains(">two<") && svg.contains("longest 12.0 ms"), "{svg}");
    }
}
