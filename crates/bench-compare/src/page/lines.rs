//! Lines over two axes: latency by percentile, throughput by threads.

use super::scale::Scale;
use super::svg::{Anchor, Svg, WIDTH};

const HEIGHT: f64 = 230.0;
const LEFT: f64 = 40.0;
const RIGHT: f64 = WIDTH - 12.0;
const TOP: f64 = 18.0;
const BOTTOM: f64 = HEIGHT - 24.0;

/// An engine's line.
#[derive(Debug)]
pub struct Line {
    /// The engine.
    pub name: String,
    /// The class of its color.
    pub class: &'static str,
    /// Positions along the x axis, 0 to 1, with their values.
    pub points: Vec<(f64, f64)>,
}

/// The rest of a drawing besides its lines.
#[derive(Debug)]
pub struct Axes<'a> {
    /// The text for screen readers.
    pub title: &'a str,
    /// The label of the values, above the axis.
    pub unit: &'a str,
    /// Marks along the x axis: positions, 0 to 1, and their labels.
    pub marks: Vec<(f64, String)>,
    /// Whether the y axis is logarithmic.
    pub logarithmic: bool,
    /// Formats a value.
    pub write: fn(f64) -> String,
    /// Whether the points themselves are drawn.
    pub dots: bool,
}

/// The drawing.
pub fn draw(lines: &[Line], axes: &Axes<'_>) -> String {
    let values = || lines.iter().flat_map(|line| line.points.iter().map(|point| point.1));
    let scale = match axes.logarithmic {
        true => Scale::logarithmic(values(), BOTTOM, TOP),
        false => Scale::linear(values().fold(0.0, f64::max) * 1.05, BOTTOM, TOP),
    };
    let across = |share: f64| LEFT + share.clamp(0.0, 1.0) * (RIGHT - LEFT);
    let mut svg = Svg::new(HEIGHT, axes.title);
    svg.text("mark", (0.0, 9.0), Anchor::Start, axes.unit);
    for value in scale.marks(4) {
        let y = scale.at(value);
        svg.line("grid", (LEFT, y), (RIGHT, y));
        svg.text("mark", (LEFT - 4.0, y + 3.5), Anchor::End, &(axes.write)(value));
    }
    for (share, words) in &axes.marks {
        let x = across(*share);
        svg.line("grid", (x, TOP), (x, BOTTOM));
        let anchor = if *share > 0.97 { Anchor::End } else { Anchor::Middle };
        svg.text("mark", (if *share > 0.97 { WIDTH } else { x }, BOTTOM + 14.0), anchor, words);
    }
    for line in lines {
        let points: Vec<(f64, f64)> =
            line.points.iter().map(|(share, value)| (across(*share), scale.at(*value))).collect();
        svg.path(&format!("line {}", line.class), &points, &line.name);
        for (point, (_, value)) in points.iter().zip(&line.points).filter(|_| axes.dots) {
            svg.dot(&format!("bar {}", line.class), *point, &format!("{}: {}", line.name, (axes.write)(*value)));
        }
    }
    svg.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::figures;

    #[test]
    fn lines_lie_within_their_axes() {
        let line = Line { name: "one".into(), class: "e1", points: vec![(0.0, 1.0), (0.5, 10.0), (1.0, 100.0)] };
        let axes = Axes {
            title: "t",
            unit: "us",
            marks: vec![(0.0, "50%".into()), (1.0, "longest".into())],
            logarithmic: true,
            write: figures,
            dots: true,
        };
        let svg = draw(&[line], &axes);
        let expected = format!("{LEFT:.1},{BOTTOM:.1} 194.0,112.0 {RIGHT:.1},{TOP:.1}");
        assert!(svg.contains(&expected), "{expected} is not in {svg}");
        assert!(svg.contains("longest") && svg.matches("<circle").count() == 3);
        assert!(!draw(&[], &axes).contains("polyline"));
    }
}
