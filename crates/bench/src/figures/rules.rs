//! The rules by which claims are checked: pure functions of panels. Each states its bound and the numbers it used.

use super::drawing::{Judgement, Line, Panel, Ruling};
use super::plot::short;

/// The name of our engine.
pub const OURS: &str = "alluvium";

pub(super) fn ruling(rule: String, holds: bool, why: String) -> Ruling {
    Ruling { rule, judgement: if holds { Judgement::Holds } else { Judgement::Fails }, why }
}

pub(super) fn not_judged(rule: String, needs: &str) -> Ruling {
    Ruling { rule, judgement: Judgement::NotJudged, why: format!("needs {needs}") }
}

/// Whether one of these engines (none: any) died at one of these points (none: at any). That fails a claim about ours;
/// a claim about others cannot be checked. Ours comes first.
pub(super) fn lost(panel: &Panel, rule: &str, engines: &[&str], points: &[&str]) -> Option<Ruling> {
    let among = |names: &[&str], name: &str| names.is_empty() || names.contains(&name);
    let dead = |line: &&Line| {
        let mut points = line.points.iter().filter(|point| among(points, &point.name));
        points.find_map(|point| Some((line.engine.clone(), point.name.clone(), point.died.as_ref()?.to_string())))
    };
    let mut lines: Vec<&Line> = panel.lines.iter().filter(|line| among(engines, &line.engine)).collect();
    lines.sort_by_key(|line| line.engine != OURS);
    let (engine, point, death) = lines.iter().find_map(dead)?;
    let judgement = if engine == OURS { Judgement::Fails } else { Judgement::NotJudged };
    Some(Ruling { rule: rule.into(), judgement, why: format!("{engine} at {point} {death}") })
}

/// Our engine survives every point; `None` if it did, since that needs no mention.
pub fn lives(panels: &[Panel]) -> Option<Ruling> {
    let rule = |panel: &Panel| format!("{}: {OURS} survives every point", panel.title);
    panels.iter().find_map(|panel| lost(panel, &rule(panel), &[OURS], &[]))
}

/// Our best throughput is at least `factor` times that of one thread. Needs `cores_min` cores: threads that share cores
/// cannot be faster than one.
pub fn scales(panel: &Panel, factor: f64, cores: usize, cores_min: usize) -> Ruling {
    let rule = format!("{}: best throughput at least {factor} times that of 1 thread", panel.title);
    if let Some(ruling) = lost(panel, &rule, &[OURS], &[]) {
        return ruling;
    }
    if cores < cores_min {
        return not_judged(rule, &format!("a machine with {cores_min} cores; this one has {cores}"));
    }
    match panel.line(OURS).and_then(|line| line.at("1").map(|one| (line.peak(), one))) {
        Some((peak, one)) if one > 0.0 => {
            ruling(rule, peak >= factor * one, format!("{peak:.0} / {one:.0} = {:.2}", peak / one))
        }
        _ => not_judged(rule, "a run of ours with 1 thread"),
    }
}

/// Our best throughput is at least `factor` times the best of any other engine.
pub fn ahead_of_all(panel: &Panel, factor: f64) -> Ruling {
    let rule = format!("{}: our best at least {factor} times the best competitor's", panel.title);
    if let Some(ruling) = lost(panel, &rule, &[], &[]) {
        return ruling;
    }
    let best = panel.lines.iter().filter(|line| line.engine != OURS).max_by(|a, b| a.peak().total_cmp(&b.peak()));
    let (Some(ours), Some(best)) = (panel.line(OURS), best) else {
        return not_judged(rule, "ours and a competitor, such as rocksdb or leveldb");
    };
    compare(rule, ours.peak(), best, best.peak(), factor)
}

/// Our best throughput is at least `factor` times the best of one other engine.
pub fn best_ahead_of(panel: &Panel, other: &str, factor: f64) -> Ruling {
    let rule = format!("{}: our best at least {factor} times {other}'s", panel.title);
    if let Some(ruling) = lost(panel, &rule, &[OURS, other], &[]) {
        return ruling;
    }
    match (panel.line(OURS), panel.line(other)) {
        (Some(ours), Some(theirs)) => compare(rule, ours.peak(), theirs, theirs.peak(), factor),
        _ => not_judged(rule, other),
    }
}

/// Ours rises from one point to another by at least a factor.
pub fn rises(panel: &Panel, from: &str, to: &str, factor: f64) -> Ruling {
    rises_of(panel, OURS, from, to, factor)
}

/// An engine rises from one point to another by at least a factor.
pub fn rises_of(panel: &Panel, engine: &str, from: &str, to: &str, factor: f64) -> Ruling {
    let whose = if engine == OURS { "ours" } else { engine };
    let rule = format!("{}: {whose} at {to} at least {factor} times {whose} at {from}", panel.title);
    between(panel, rule, engine, (from, to), |before, after| after >= factor * before)
}

/// Ours does not rise from one point to another.
pub fn falls(panel: &Panel, from: &str, to: &str) -> Ruling {
    let rule = format!("{}: ours at {to} not above ours at {from}", panel.title);
    between(panel, rule, OURS, (from, to), |before, after| after <= before)
}

fn between(
    panel: &Panel,
    rule: String,
    engine: &str,
    (from, to): (&str, &str),
    holds: impl Fn(f64, f64) -> bool,
) -> Ruling {
    if let Some(ruling) = lost(panel, &rule, &[engine], &[from, to]) {
        return ruling;
    }
    let at = |point| panel.line(engine).and_then(|line| line.at(point));
    match (at(from), at(to)) {
        (Some(before), Some(after)) => {
            ruling(rule, holds(before, after), format!("{} at {to}, {} at {from}", short(after), short(before)))
        }
        _ if engine == OURS => not_judged(rule, "a run of ours at both"),
        _ => not_judged(rule, engine),
    }
}

/// At one point ours is at least `factor` times another engine's.
pub fn ahead_at(panel: &Panel, point: &str, other: &str, factor: f64) -> Ruling {
    let rule = format!("{}, {point}: at least {factor} times {other}", panel.title);
    if let Some(ruling) = lost(panel, &rule, &[OURS, other], &[point]) {
        return ruling;
    }
    let height = |line: &Line| line.at(point);
    match (panel.line(OURS).and_then(height), panel.line(other), panel.line(other).and_then(height)) {
        (Some(ours), Some(line), Some(theirs)) => compare(rule, ours, line, theirs, factor),
        (None, ..) => not_judged(rule, "a run of ours"),
        _ => not_judged(rule, other),
    }
}

/// Another engine's best is at most `factor` times its result with one thread.
pub fn stays_flat(panel: &Panel, other: &str, factor: f64, cores: usize, cores_min: usize) -> Ruling {
    let rule = format!("{}: {other}'s best at most {factor} times its 1 thread", panel.title);
    if let Some(ruling) = lost(panel, &rule, &[other], &[]) {
        return ruling;
    }
    if cores < cores_min {
        return not_judged(rule, &format!("a machine with {cores_min} cores; this one has {cores}"));
    }
    match panel.line(other).and_then(|line| line.at("1").map(|one| (line.peak(), one))) {
        Some((peak, one)) if one > 0.0 => {
            ruling(rule, peak <= factor * one, format!("{peak:.0} / {one:.0} = {:.2}", peak / one))
        }
        _ => not_judged(rule, other),
    }
}

/// At one point ours is at most `factor` times another engine's; for figures where less is better.
pub fn below_at(panel: &Panel, point: &str, other: &str, factor: f64) -> Ruling {
    let rule = format!("{}, {point}: at most {} times {other}", panel.title, short(factor));
    if let Some(ruling) = lost(panel, &rule, &[OURS, other], &[point]) {
        return ruling;
    }
    let at = |engine| panel.line(engine).and_then(|line| line.at(point));
    match (at(OURS), at(other)) {
        (Some(ours), Some(theirs)) => {
            ruling(rule, ours <= factor * theirs, format!("{} against {} ({other})", short(ours), short(theirs)))
        }
        (None, _) => not_judged(rule, "a run of ours"),
        (_, None) => not_judged(rule, other),
    }
}

/// At one point ours is at most a bound.
pub fn at_most(panel: &Panel, point: &str, bound: f64) -> Ruling {
    let rule = format!("{}, {point}: at most {bound}", panel.title);
    if let Some(ruling) = lost(panel, &rule, &[OURS], &[point]) {
        return ruling;
    }
    match panel.line(OURS).and_then(|line| line.at(point)) {
        Some(ours) => ruling(rule, ours <= bound, short(ours)),
        None => not_judged(rule, "a run of ours"),
    }
}

/// At one point ours is at least a fraction of a reference that was measured separately, provided that the data came
/// from there: if less than half of it was `read`, it came from memory, and the claim cannot be checked.
pub fn share_read_at(
    (returned, read): (&Panel, &Panel),
    point: &str,
    (of, whole): (&str, Option<f64>),
    part: f64,
) -> Ruling {
    let rule = format!("{}, {point}: at least {part} of {of}", returned.title);
    if let Some(ruling) = lost(returned, &rule, &[OURS], &[point]) {
        return ruling;
    }
    let at = |panel: &Panel| panel.line(OURS).and_then(|line| line.at(point));
    match (at(returned), at(read), whole) {
        (None, _, _) | (_, None, _) => not_judged(rule, "a run of ours whose reads were counted"),
        (_, _, None) => not_judged(rule, of),
        (Some(ours), Some(read), _) if read < ours / 2.0 => not_judged(rule, "data that is not in memory"),
        (Some(ours), _, Some(whole)) => {
            ruling(rule, ours >= part * whole, format!("{} of {}", short(ours), short(whole)))
        }
    }
}

/// Ours never falls from one point to the next by more than the fraction `slack`.
pub fn never_falls(panel: &Panel, slack: f64) -> Ruling {
    let rule = format!("{}: ours falls nowhere, by more than {slack}", panel.title);
    if let Some(ruling) = lost(panel, &rule, &[OURS], &[]) {
        return ruling;
    }
    steady(panel, rule, |before, after| after >= before * (1.0 - slack))
}

/// Ours never rises from one point to the next by more than the fraction `slack`.
pub fn never_rises(panel: &Panel, slack: f64) -> Ruling {
    let rule = format!("{}: ours rises nowhere, by more than {slack}", panel.title);
    if let Some(ruling) = lost(panel, &rule, &[OURS], &[]) {
        return ruling;
    }
    steady(panel, rule, |before, after| after <= before * (1.0 + slack))
}

fn steady(panel: &Panel, rule: String, holds: impl Fn(f64, f64) -> bool) -> Ruling {
    let points = panel.line(OURS).map_or(&[][..], |line| &line.points);
    let heights: Vec<(&str, f64)> = points.iter().filter_map(|point| Some((&point.name[..], point.y?))).collect();
    let ([first, _, ..], [.., last]) = (&heights[..], &heights[..]) else {
        return not_judged(rule, "a run of ours with two points");
    };
    let fault = heights.windows(2).find(|pair| !holds(pair[0].1, pair[1].1));
    let ((from, before), (to, after)) = fault.map_or((*first, *last), |pair| (pair[0], pair[1]));
    let why = format!("{} at {from} to {} at {to}", short(before), short(after));
    ruling(rule, fault.is_none(), why)
}

/// Between two points an engine has at least a fraction of their harmonic mean: the result of a mix of two kinds of work if
/// each took as long as it does alone.
pub fn near_harmonic_mean(panel: &Panel, engine: &str, (from, middle, to): (&str, &str, &str), part: f64) -> Ruling {
    let rule = format!("{}, {middle}: {engine} at least {part} of the harmonic mean of {from} and {to}", panel.title);
    if let Some(ruling) = lost(panel, &rule, &[engine], &[from, middle, to]) {
        return ruling;
    }
    let at = |point| panel.line(engine).and_then(|line| line.at(point)).filter(|height| *height > 0.0);
    match (at(from), at(middle), at(to)) {
        (Some(first), Some(ours), Some(last)) => {
            let mean = 2.0 / (1.0 / first + 1.0 / last);
            ruling(rule, ours >= part * mean, format!("{} of {}", short(ours), short(mean)))
        }
        _ => not_judged(rule, "a run of ours at all three"),
    }
}

fn compare(rule: String, ours: f64, line: &Line, theirs: f64, factor: f64) -> Ruling {
    if theirs <= 0.0 {
        return not_judged(rule, &format!("a nonzero figure of {}", line.engine));
    }
    let why = format!("{ours:.0} / {theirs:.0} ({}) = {:.2}", line.engine, ours / theirs);
    ruling(rule, ours >= factor * theirs, why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::{Death, Point};

    fn panel(lines: &[(&str, &[f64])]) -> Panel {
        let point = |(at, y): (usize, &f64)| Point::at(&(1 << at).to_string(), f64::from(1 << at), *y);
        let line = |(engine, heights): &(&str, &[f64])| Line {
            engine: (*engine).to_string(),
            points: heights.iter().enumerate().map(point).collect(),
        };
        Panel { title: "p".into(), lines: lines.iter().map(line).collect(), ..Panel::default() }
    }

    #[test]
    fn bounds_are_met_or_not() {
        let both = panel(&[(OURS, &[100.0, 190.0, 180.0]), ("rocksdb", &[90.0, 95.0])]);
        let judged = |ruling: Ruling| ruling.judgement;
        assert_eq!(judged(scales(&both, 1.9, 4, 4)), Judgement::Holds);
        assert_eq!(judged(scales(&both, 1.91, 4, 4)), Judgement::Fails);
        assert_eq!(judged(ahead_of_all(&both, 2.0)), Judgement::Holds);
        assert_eq!(judged(ahead_of_all(&both, 2.01)), Judgement::Fails);
        assert_eq!(judged(ahead_at(&both, "1", "rocksdb", 1.1)), Judgement::Holds);
        assert_eq!(judged(ahead_at(&both, "1", "rocksdb", 1.2)), Judgement::Fails);
        assert_eq!(judged(best_ahead_of(&both, "rocksdb", 2.0)), Judgement::Holds);
        assert_eq!(judged(best_ahead_of(&both, "rocksdb", 2.01)), Judgement::Fails);
        assert_eq!(judged(rises(&both, "1", "2", 1.9)), Judgement::Holds);
        assert_eq!(judged(rises(&both, "1", "2", 1.91)), Judgement::Fails);
        assert_eq!(judged(rises_of(&both, "rocksdb", "1", "2", 1.05)), Judgement::Holds);
        assert_eq!(judged(rises_of(&both, "rocksdb", "1", "2", 1.06)), Judgement::Fails);
        assert_eq!(judged(falls(&both, "2", "4")), Judgement::Holds);
        assert_eq!(judged(falls(&both, "1", "2")), Judgement::Fails);
        assert_eq!(judged(below_at(&both, "1", "rocksdb", 1.12)), Judgement::Holds);
        assert_eq!(judged(below_at(&both, "1", "rocksdb", 1.11)), Judgement::Fails);
        assert_eq!(judged(at_most(&both, "2", 190.0)), Judgement::Holds);
        assert_eq!(judged(at_most(&both, "2", 189.9)), Judgement::Fails);
        assert_eq!(judged(share_read_at((&both, &both), "1", ("w", Some(200.0)), 0.5)), Judgement::Holds);
        assert_eq!(judged(share_read_at((&both, &both), "1", ("w", Some(200.1)), 0.5)), Judgement::Fails);
        // 100, 190, 180: up by 0.9, down by 0.053.
        assert_eq!(judged(never_falls(&both, 0.06)), Judgement::Holds);
        assert_eq!(judged(never_falls(&both, 0.05)), Judgement::Fails);
        assert_eq!(judged(never_rises(&both, 0.91)), Judgement::Holds);
        assert_eq!(judged(never_rises(&both, 0.89)), Judgement::Fails);
        // The harmonic mean of 100 and 180 is 128.6.
        assert_eq!(judged(near_harmonic_mean(&both, OURS, ("1", "2", "4"), 1.47)), Judgement::Holds);
        assert_eq!(judged(near_harmonic_mean(&both, OURS, ("1", "2", "4"), 1.48)), Judgement::Fails);
        assert_eq!(judged(stays_flat(&both, "rocksdb", 1.1, 4, 4)), Judgement::Holds);
        assert_eq!(judged(stays_flat(&both, "rocksdb", 1.05, 4, 4)), Judgement::Fails);
    }

    #[test]
    fn what_is_missing_is_named_and_not_judged() {
        let alone = panel(&[(OURS, &[100.0])]);
        for (ruling, needs) in [
            (ahead_of_all(&alone, 1.8), "competitor"),
            (ahead_at(&alone, "1", "rocksdb", 1.8), "rocksdb"),
            (best_ahead_of(&alone, "rocksdb", 1.8), "rocksdb"),
            (rises(&alone, "1", "64", 1.0), "a run of ours"),
            (rises_of(&alone, "rocksdb", "1", "64", 1.0), "rocksdb"),
            (below_at(&alone, "1", "rocksdb", 1.0), "rocksdb"),
            (below_at(&alone, "2", "rocksdb", 1.0), "a run of ours"),
            (at_most(&alone, "2", 1.0), "a run of ours"),
            (share_read_at((&alone, &alone), "1", ("the device", None), 0.5), "the device"),
            (share_read_at((&alone, &panel(&[(OURS, &[49.0])])), "1", ("the device", Some(1.0)), 0.5), "not in memory"),
            (never_falls(&alone, 0.1), "two points"),
            (near_harmonic_mean(&alone, OURS, ("1", "2", "4"), 0.9), "all three"),
            (ahead_at(&alone, "64", "rocksdb", 1.8), "a run of ours"),
            (stays_flat(&alone, "leveldb", 1.3, 8, 4), "leveldb"),
            (scales(&alone, 2.0, 2, 4), "4 cores; this one has 2"),
            (scales(&panel(&[]), 2.0, 4, 4), "a run of ours"),
            (ahead_of_all(&panel(&[(OURS, &[1.0]), ("x", &[0.0])]), 1.0), "nonzero"),
        ] {
            assert_eq!(ruling.judgement, Judgement::NotJudged, "{ruling:?}");
            assert!(ruling.why.starts_with("needs ") && ruling.why.contains(needs), "{ruling:?}");
        }
    }

    /// Every rule with all points, then with one line's last point missing because of a death.
    #[test]
    fn a_death_of_a_rival_is_not_judged_and_one_of_ours_fails() {
        let rules: [fn(&Panel) -> Ruling; 11] = [
            |panel| ahead_of_all(panel, 1.0),
            |panel| best_ahead_of(panel, "rocksdb", 1.0),
            |panel| ahead_at(panel, "4", "rocksdb", 1.0),
            |panel| below_at(panel, "4", "rocksdb", 9.0),
            |panel| scales(panel, 1.0, 4, 4),
            |panel| rises(panel, "1", "4", 1.0),
            |panel| falls(panel, "2", "4"),
            |panel| at_most(panel, "4", 999.0),
            |panel| share_read_at((panel, panel), "4", ("w", Some(1.0)), 0.5),
            |panel| never_falls(panel, 0.5),
            |panel| near_harmonic_mean(panel, OURS, ("1", "2", "4"), 0.1),
        ];
        let both = panel(&[("rocksdb", &[90.0, 95.0, 95.0]), (OURS, &[100.0, 190.0, 180.0])]);
        let died = |engine: &str| {
            let mut panel = both.clone();
            let line = panel.lines.iter_mut().find(|line| line.engine == engine).unwrap();
            let death = Death { why: "killed".into(), peak_bytes: Some(3 << 19), ..Death::default() };
            line.points[2] = Point::dead("4", Some(4.0), &death);
            panel
        };
        let (theirs, ours) = (died("rocksdb"), died(OURS));
        for (at, rule) in rules.iter().enumerate() {
            assert_eq!(rule(&both).judgement, Judgement::Holds, "{at}");
            let expected = if at < 4 { Judgement::NotJudged } else { Judgement::Holds };
            assert_eq!(rule(&theirs).judgement, expected, "{at}");
            let ruling = rule(&ours);
            assert_eq!(
                (ruling.judgement, &ruling.why[..]),
                (Judgement::Fails, "alluvium at 4 died: killed, peak 1.5 MiB")
            );
        }
        assert_eq!(ahead_of_all(&theirs, 1.0).why, "rocksdb at 4 died: killed, peak 1.5 MiB");
        assert_eq!(stays_flat(&theirs, "rocksdb", 9.0, 4, 4).judgement, Judgement::NotJudged);
        let rises = [&theirs, &ours].map(|panel| rises_of(panel, "rocksdb", "1", "4", 1.0).judgement);
        assert_eq!(rises, [Judgement::NotJudged, Judgement::Holds]);
        // Claims that need other points are still checked.
        assert_eq!(ahead_at(&theirs, "2", "rocksdb", 2.0).judgement, Judgement::Holds);
        assert_eq!(ahead_at(&ours, "2", "rocksdb", 2.0).judgement, Judgement::Holds);
        assert_eq!(
            (lives(&[both.clone(), theirs]), lives(&[both, ours]).map(|ruling| ruling.judgement)),
            (None, Some(Judgement::Fails))
        );
    }
}
