//! An SVG drawing, built element by element. Widths are in units that are pixels on a phone; the page scales it.

use super::escape::escape;
use std::fmt::Write;

/// The width of every drawing.
pub const WIDTH: f64 = 360.0;

/// The anchor of a text.
#[derive(Clone, Copy, Debug)]
pub enum Anchor {
    /// Its beginning.
    Start,
    /// Its middle.
    Middle,
    /// Its end.
    End,
}

/// A drawing under construction.
#[derive(Debug)]
pub struct Svg {
    body: String,
    height: f64,
    title: String,
}

impl Svg {
    /// An empty drawing; `title` is for screen readers.
    pub fn new(height: f64, title: &str) -> Self {
        Self { body: String::new(), height, title: title.to_owned() }
    }

    fn add(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.body.write_fmt(element);
        self.body.push('\n');
    }

    /// A rectangle; `tip` is its tooltip.
    pub fn rect(&mut self, class: &str, x: f64, y: f64, width: f64, height: f64, tip: &str) {
        let tip = escape(tip);
        let width = width.max(0.0);
        self.add(format_args!(
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"1.5\">\
             <title>{tip}</title></rect>"
        ));
    }

    /// A straight line.
    pub fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        self.add(format_args!(
            "<line class=\"{class}\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"/>",
            from.0, from.1, to.0, to.1
        ));
    }

    /// A line through points.
    pub fn path(&mut self, class: &str, points: &[(f64, f64)], tip: &str) {
        let points = joined(points);
        let tip = escape(tip);
        self.add(format_args!("<polyline class=\"{class}\" points=\"{points}\"><title>{tip}</title></polyline>"));
    }

    /// A filled shape.
    pub fn area(&mut self, class: &str, points: &[(f64, f64)], tip: &str) {
        let points = joined(points);
        let tip = escape(tip);
        self.add(format_args!("<polygon class=\"{class}\" points=\"{points}\"><title>{tip}</title></polygon>"));
    }

    /// A dot.
    pub fn dot(&mut self, class: &str, at: (f64, f64), tip: &str) {
        let tip = escape(tip);
        self.add(format_args!(
            "<circle class=\"{class}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\"><title>{tip}</title></circle>",
            at.0, at.1
        ));
    }

    /// A text.
    pub fn text(&mut self, class: &str, at: (f64, f64), anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let text = escape(text);
        self.add(format_args!(
            "<text class=\"{class}\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{text}</text>",
            at.0, at.1
        ));
    }

    /// The whole element.
    pub fn finish(self) -> String {
        let title = escape(&self.title);
        format!(
            "<svg viewBox=\"0 0 {WIDTH} {:.0}\" role=\"img\" aria-label=\"{title}\">\n{}</svg>\n",
            self.height, self.body
        )
    }
}

fn joined(points: &[(f64, f64)]) -> String {
    let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    points.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_escaped_and_elements_closed() {
        let mut svg = Svg::new(50.0, "a < b");
        svg.text("t", (1.0, 2.0), Anchor::End, "<script>");
        svg.rect("r", 0.0, 0.0, -5.0, 3.0, "\"tip\"");
        svg.path("p", &[(0.0, 1.0), (2.0, 3.25)], "&");
        let text = svg.finish();
        assert!(
            text.contains("aria-label=\"a &lt; b\"") && text.contains("&lt;script&gt;") && !text.contains("<script")
        );
        assert!(text.contains("width=\"0.0\"") && text.contains("&quot;tip&quot;"));
        assert!(text.contains("points=\"0.0,1.0 2.0,3.2\"") || text.contains("points=\"0.0,1.0 2.0,3.3\""));
        assert!(text.ends_with("</svg>\n"));
    }
}
