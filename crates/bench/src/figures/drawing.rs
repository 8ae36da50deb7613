//! The results of a figure: plain data, for tables, plots and JSON.

use super::host::Ran;
use super::{Figure, rules};
use crate::outcome::Outcome;
use serde::{Deserialize, Serialize};
use std::fmt;

/// One figure's results.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Drawing {
    /// The figure's name.
    pub figure: String,
    /// Paper and number.
    pub source: String,
    /// The paper's claim.
    pub claim: String,
    /// How it was run here, and the differences from the paper.
    pub conditions: Vec<String>,
    /// The panels.
    pub panels: Vec<Panel>,
    /// The checked claims.
    pub rulings: Vec<Ruling>,
}

/// One diagram.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Panel {
    /// What it shows.
    pub title: String,
    /// The meaning of the points' names or of `x`.
    pub x: String,
    /// The meaning of `y`.
    pub y: String,
    /// Whether `x` was measured, too; otherwise the points' names say everything.
    #[serde(default)]
    pub x_measured: bool,
    /// A line per engine.
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

/// One point, or a placeholder if the engine died.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Its name: a number of threads, a workload.
    pub name: String,
    /// Its x value; `None` if that was to be measured and was not.
    pub x: Option<f64>,
    /// Its y value; `None` if the engine died.
    pub y: Option<f64>,
    /// How the engine died.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub died: Option<Death>,
}

/// How an engine's process ended before its work was done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Death {
    /// The workload during which it died.
    pub workload: String,
    /// Whether it died before this point: a later point would have used the same store.
    pub before: bool,
    /// The cause.
    pub why: String,
    /// The peak memory of the engine and its page cache, if the kernel reports it.
    pub peak_bytes: Option<u64>,
}

impl fmt::Display for Death {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.before {
            return write!(f, "died before, in {}", self.workload);
        }
        write!(f, "died: {}", self.why)?;
        self.peak_bytes.map_or(Ok(()), |bytes| write!(f, ", peak {:.1} MiB", bytes as f64 / (1 << 20) as f64))
    }
}

/// A rule and its result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ruling {
    /// The rule, with its bound.
    pub rule: String,
    /// The result here.
    pub judgement: Judgement,
    /// The numbers that it was computed from, or what is missing.
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
    /// Something that it needs is missing.
    NotJudged,
}

impl Judgement {
    /// As text.
    pub fn text(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Fails => "fails",
            Self::NotJudged => "not judged",
        }
    }
}

impl Drawing {
    /// The verdict on a figure. If our own engine died anywhere, the figure fails.
    pub fn of(figure: &Figure, conditions: Vec<String>, panels: Vec<Panel>, mut rulings: Vec<Ruling>) -> Self {
        rulings.extend(rules::lives(&panels));
        let (name, source, claim) = (figure.name.to_string(), figure.source.to_string(), figure.claim.to_string());
        Self { figure: name, source, claim, conditions, panels, rulings }
    }
}

impl Point {
    /// A measured point.
    pub fn at(name: &str, x: f64, y: f64) -> Self {
        Self { name: name.into(), x: Some(x), y: Some(y), died: None }
    }

    /// A placeholder for a missing point.
    pub fn dead(name: &str, x: Option<f64>, death: &Death) -> Self {
        Self { name: name.into(), x, y: None, died: Some(death.clone()) }
    }

    /// Its position, if it is drawn.
    pub fn place(&self) -> Option<(f64, f64)> {
        self.x.zip(self.y).filter(|(x, y)| x.is_finite() && y.is_finite())
    }
}

impl Line {
    /// A point for each element of `places`, with the height that `height` computes from the outcome; none if it
    /// cannot.
    pub fn of<'a>(
        engine: &str,
        places: impl IntoIterator<Item = (&'a str, f64)>,
        ran: &[Ran],
        height: impl Fn(&Outcome) -> Option<f64>,
    ) -> Self {
        let point = |((name, x), ran): ((&str, f64), &Ran)| match ran {
            Ok(outcome) => Some(Point::at(name, x, height(outcome)?)),
            Err(death) => Some(Point::dead(name, Some(x), death)),
        };
        Self { engine: engine.into(), points: places.into_iter().zip(ran).filter_map(point).collect() }
    }

    /// The greatest height; 0 without points.
    pub fn peak(&self) -> f64 {
        self.points.iter().filter_map(|point| point.y).fold(0.0, f64::max)
    }

    /// The point with this name.
    pub fn point(&self, name: &str) -> Option<&Point> {
        self.points.iter().find(|point| point.name == name)
    }

    /// Its height.
    pub fn at(&self, name: &str) -> Option<f64> {
        self.point(name)?.y
    }
}

impl Panel {
    /// An engine's line.
    pub fn line(&self, engine: &str) -> Option<&Line> {
        self.lines.iter().find(|line| line.engine == engine)
    }

    /// The points' names, from the line with most points.
    pub fn names(&self) -> Vec<&str> {
        let longest = self.lines.iter().max_by_key(|line| line.points.len());
        longest.map_or(&[][..], |line| &line.points).iter().map(|point| &point.name[..]).collect()
    }
}
