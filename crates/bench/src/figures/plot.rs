//! A panel as text: a grid of characters, a letter for each engine.

use super::drawing::{Line, Panel, Point};
use std::fmt::Write;

const WIDTH: usize = 60;
const HEIGHT: usize = 14;
/// The engines' marks, in the order of the lines; of several at one position the last one shows.
const MARKS: [char; 8] = ['A', 'B', 'C', 'D', 'E', 'F', 'G', 'H'];

/// Draws a panel. Both axes begin at 0, so that lengths can be compared; missing and infinite points are left out.
pub fn plot(panel: &Panel) -> String {
    let places = || panel.lines.iter().flat_map(|line| &line.points).filter_map(Point::place);
    let x_max = places().map(|(x, _)| x).fold(0.0, f64::max);
    let y_max = places().map(|(_, y)| y).fold(0.0, f64::max);
    if x_max <= 0.0 || y_max <= 0.0 {
        return format!("{}: nothing to draw\n", panel.title);
    }
    let mut grid = vec![[' '; WIDTH + 1]; HEIGHT + 1];
    let place = |value: f64, max: f64, cells: usize| ((value / max).clamp(0.0, 1.0) * cells as f64).round() as usize;
    for (line, mark) in panel.lines.iter().zip(MARKS.iter().cycle()) {
        for (x, y) in line.points.iter().filter_map(Point::place) {
            grid[HEIGHT - place(y, y_max, HEIGHT)][place(x, x_max, WIDTH)] = *mark;
        }
    }
    let mut out = String::new();
    let heights = grid.iter().enumerate().map(|(row, cells)| (y_max * (HEIGHT - row) as f64 / HEIGHT as f64, cells));
    for (at, (height, cells)) in heights.enumerate() {
        let label = if at % 7 == 0 { short(height) } else { String::new() };
        let cells: String = cells.iter().collect();
        put(&mut out, format_args!("{label:>9} |{}", cells.trim_end()));
    }
    put(&mut out, format_args!("{:>9} +{}", "", "-".repeat(WIDTH)));
    out.push_str(&axis(&panel.lines, x_max, &place));
    put(&mut out, format_args!("{:>11}across: {}; up: {}", "", panel.x, panel.y));
    for (line, mark) in panel.lines.iter().zip(MARKS.iter().cycle()) {
        put(&mut out, format_args!("{:>11}{mark} {}", "", line.engine));
    }
    out
}

/// The names of the first line's points below their positions, if there is space.
fn axis(lines: &[Line], x_max: f64, place: &dyn Fn(f64, f64, usize) -> usize) -> String {
    let mut out = " ".repeat(11);
    for point in lines.first().map_or(&[][..], |line| &line.points) {
        let Some(x) = point.x.filter(|x| x.is_finite()) else { continue };
        let column = 11 + place(x, x_max, WIDTH);
        if out.len() == 11 || out.len() < column {
            let _ = write!(out, "{:>width$}{}", "", point.name, width = column.saturating_sub(out.len()));
        }
    }
    out.push('\n');
    out
}

/// Writing to a string cannot fail.
fn put(out: &mut String, line: std::fmt::Arguments<'_>) {
    let _ = writeln!(out, "{line}");
}

/// A number in few characters.
pub fn short(number: f64) -> String {
    match number {
        number if number >= 1e6 => format!("{:.2}M", number / 1e6),
        number if number >= 1e4 => format!("{:.0}k", number / 1e3),
        number if number >= 100.0 => format!("{number:.0}"),
        number => format!("{number:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::Death;

    fn panel(lines: &[(&str, &[(f64, f64)])]) -> Panel {
        let point = |(x, y): &(f64, f64)| Point::at(&x.to_string(), *x, *y);
        let line = |(engine, points): &(&str, &[(f64, f64)])| Line {
            engine: (*engine).to_string(),
            points: points.iter().map(point).collect(),
        };
        let lines = lines.iter().map(line).collect();
        Panel { title: "t".into(), x: "threads".into(), y: "ops/s".into(), x_measured: false, lines }
    }

    #[test]
    fn points_stand_where_their_numbers_say() {
        let text = plot(&panel(&[("ours", &[(1.0, 50.0), (2.0, 100.0)]), ("theirs", &[(2.0, 50.0)])]));
        let rows: Vec<&str> = text.lines().collect();
        assert_eq!(rows[0].chars().position(|letter| letter == 'A'), Some(11 + WIDTH), "{text}");
        assert_eq!(rows[HEIGHT / 2].chars().position(|letter| letter == 'A'), Some(11 + WIDTH / 2), "{text}");
        assert_eq!(rows[HEIGHT / 2].chars().position(|letter| letter == 'B'), Some(11 + WIDTH), "{text}");
        assert!(text.contains("A ours") && text.contains("B theirs") && text.contains("across: threads; up: ops/s"));
        assert!(
            rows[0].starts_with("      100") && rows[HEIGHT + 2].trim() == "1                             2",
            "{text}"
        );
    }

    #[test]
    fn nothing_and_nonsense_are_drawn_without_a_fuss() {
        assert!(plot(&panel(&[])).contains("nothing to draw"));
        assert!(plot(&panel(&[("e", &[(0.0, 0.0)])])).contains("nothing to draw"));
        assert!(plot(&panel(&[("e", &[(f64::NAN, 1.0), (1.0, f64::INFINITY), (1.0, 1.0)])])).contains('A'));
    }

    #[test]
    fn where_an_engine_died_there_is_no_point() {
        let mut panel = panel(&[("ours", &[(1.0, 50.0), (2.0, 100.0)]), ("theirs", &[(2.0, 50.0)])]);
        let whole = plot(&panel);
        panel.lines[1].points.push(Point::dead("1", Some(1.0), &Death::default()));
        panel.lines[1].points.push(Point::dead("3", None, &Death::default()));
        assert_eq!(plot(&panel), whole);
    }

    #[test]
    fn few_letters() {
        let texts = [1.5, 150.0, 15_000.0, 1_500_000.0].map(short);
        assert_eq!(texts, ["1.50", "150", "15k", "1.50M"]);
    }
}
