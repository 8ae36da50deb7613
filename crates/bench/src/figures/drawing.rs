//! A figure that was run: plain data, for tables, plots and JSON.

use serde::{Deserialize, Serialize};

/// One figure's results.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Drawing {
    /// The figure's name.
    pub figure: String,
    /// Paper and number.
    pub source: String,
    /// What the paper says with it.
    pub claim: String,
    /// How it was run here, and what differs from the paper.
    pub conditions: Vec<String>,
    /// The panels.
    pub panels: Vec<Panel>,
    /// What was judged.
    pub rulings: Vec<Ruling>,
}

/// One diagram.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Panel {
    /// What it shows.
    pub title: String,
    /// What the points' names or `x` mean.
    pub x: String,
    /// What `y` means.
    pub y: String,
    /// A line for every engine.
    pub lines: Vec<Line>,
}

/// One engine's points.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// The engine.
    pub engine: String,
    /// From left to right.
    pub points: Vec<Point>,
}

/// One point.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// What it stands for: a number of threads, a workload.
    pub name: String,
    /// Where it lies.
    pub x: f64,
    /// How high.
    pub y: f64,
}

/// A rule and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ruling {
    /// The rule, with its bound.
    pub rule: String,
    /// What it says here.
    pub judgement: Judgement,
    /// The numbers it was computed from, or what it would need.
    pub why: String,
}

/// Whether a claim's shape holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Judgement {
    /// It does.
    Holds,
    /// It does not.
    Fails,
    /// Something it needs is not here.
    NotJudged,
}

impl Judgement {
    /// For people.
    pub fn text(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Fails => "fails",
            Self::NotJudged => "not judged",
        }
    }
}

impl Line {
    /// The highest point's height; 0 without points.
    pub fn peak(&self) -> f64 {
        self.points.iter().map(|point| point.y).fold(0.0, f64::max)
    }

    /// The height of the point with this name.
    pub fn at(&self, name: &str) -> Option<f64> {
        self.points.iter().find(|point| point.name == name).map(|point| point.y)
    }
}

impl Panel {
    /// An engine's line.
    pub fn line(&self, engine: &str) -> Option<&Line> {
        self.lines.iter().find(|line| line.engine == engine)
    }
}
