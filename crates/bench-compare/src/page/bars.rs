//! Bars, a row per engine: its name and figures above, the bar below across the whole width.

use super::scale::Scale;
use super::svg::{Anchor, Svg, WIDTH};
use crate::summary::median;

const ROW: f64 = 31.0;
const TOP: f64 = 4.0;
const BAR: f64 = 9.0;
/// From the top of a row to the baseline of its text.
const TEXT: f64 = 12.0;

/// A row.
#[derive(Debug)]
pub struct Row {
    /// The engine.
    pub name: String,
    /// The class of its color.
    pub class: &'static str,
    /// The figures as text.
    pub label: String,
    /// Lengths of the parts, one after the other; the first is solid, the others are paler.
    pub parts: Vec<f64>,
}

impl Row {
    fn length(&self) -> f64 {
        self.parts.iter().sum()
    }
}

/// Draws some rows, the longest as wide as the drawing.
pub fn draw(rows: &[Row], title: &str) -> String {
    draw_up_to(rows, title, f64::INFINITY)
}

/// The same if one row may be far longer than the others: a bar of this many times the median fills the row, and longer
/// ones are cut.
pub fn draw_cut(rows: &[Row], title: &str, medians: f64) -> String {
    let middle = median(rows.iter().map(Row::length)).unwrap_or(0.0);
    draw_up_to(rows, title, if middle > 0.0 { middle * medians } else { f64::INFINITY })
}

fn draw_up_to(rows: &[Row], title: &str, most: f64) -> String {
    let longest = rows.iter().map(Row::length).fold(0.0, f64::max);
    let scale = Scale::linear(longest.min(most), 0.0, WIDTH);
    let mut svg = Svg::new(TOP + rows.len() as f64 * ROW, title);
    for (at, row) in rows.iter().enumerate() {
        let y = TOP + at as f64 * ROW;
        let tip = format!("{}: {}", row.name, row.label);
        svg.text(&format!("name {}", row.class), (0.0, y + TEXT), Anchor::Start, &row.name);
        svg.text("value", (WIDTH, y + TEXT), Anchor::End, &row.label);
        let top = y + TEXT + 4.0;
        svg.rect("track", 0.0, top, WIDTH, BAR, &tip);
        let mut before = 0.0;
        for (part, length) in row.parts.iter().enumerate() {
            let (start, end) = (scale.at(before), scale.at(before + length));
            let class = if part == 0 { "bar" } else { "bar pale" };
            svg.rect(&format!("{class} {}", row.class), start, top, end - start, BAR, &tip);
            before += length;
        }
    }
    svg.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_bar_is_as_wide_as_the_drawing() {
        let row = |name: &str, parts: &[f64]| Row {
            name: name.into(),
            class: "e0",
            label: format!("{} in all", parts.iter().sum::<f64>()),
            parts: parts.to_vec(),
        };
        let svg = draw(&[row("one", &[1.0, 2.0]), row("two", &[6.0])], "t");
        assert!(svg.contains("<rect class=\"bar e0\" x=\"0.0\" y=\"51.0\" width=\"360.0\""), "{svg}");
        // The parts follow each other: 1 of 6, then 2 of 6.
        assert!(svg.contains("class=\"bar e0\" x=\"0.0\" y=\"20.0\" width=\"60.0\""), "{svg}");
        assert!(svg.contains("class=\"bar pale e0\" x=\"60.0\" y=\"20.0\" width=\"120.0\""), "{svg}");
        assert!(svg.contains("3 in all"));
        // One value of a hundred does not flatten the others.
        let rows = [row("one", &[1.0]), row("two", &[2.0]), row("three", &[100.0])];
        let svg = draw_cut(&rows, "t", 2.0);
        assert!(svg.contains("y=\"51.0\" width=\"180.0\"") && svg.contains("y=\"82.0\" width=\"360.0\""), "{svg}");
    }
}
