//! Rules with absolute marks, and for gains by threads. Pure functions of panels, as in `rules.rs`.

use crate::figures::drawing::{Panel, Ruling};
use crate::figures::plot::short;
use crate::figures::rules::{OURS, lost, not_judged, ruling};

fn height(panel: &Panel, point: &str) -> Option<f64> {
    panel.line(OURS).and_then(|line| line.at(point))
}

/// At one point ours is at least a bound.
pub fn at_least(panel: &Panel, point: &str, bound: f64) -> Ruling {
    let rule = format!("{}, {point}: at least {}", panel.title, short(bound));
    if let Some(ruling) = lost(panel, &rule, &[OURS], &[point]) {
        return ruling;
    }
    match height(panel, point) {
        Some(ours) => ruling(rule, ours >= bound, short(ours)),
        None => not_judged(rule, "a run of ours"),
    }
}

/// At one point ours is between two bounds.
pub fn within(panel: &Panel, point: &str, from: f64, to: f64) -> Ruling {
    let rule = format!("{}, {point}: from {from} to {to}", panel.title);
    if let Some(ruling) = lost(panel, &rule, &[OURS], &[point]) {
        return ruling;
    }
    match height(panel, point) {
        Some(ours) => ruling(rule, (from..=to).contains(&ours), short(ours)),
        None => not_judged(rule, "a run of ours with data in several levels"),
    }
}

/// Ours with two threads is at least `factor` times ours with one. Needs two cores.
pub fn two_threads(panel: &Panel, factor: f64, cores: usize) -> Ruling {
    let rule = format!("{}: two threads at least {factor} times one", panel.title);
    if let Some(ruling) = lost(panel, &rule, &[OURS], &["1", "2"]) {
        return ruling;
    }
    if cores < 2 {
        return not_judged(rule, "a machine with 2 cores");
    }
    match gain(panel, "2") {
        Some(gain) => ruling(rule, gain >= factor, short(gain)),
        None => not_judged(rule, "runs of ours with 1 and 2 threads"),
    }
}

/// From one thread to `point` threads ours gains at least as much in one panel as in another, up to the fraction `slack`.
pub fn gains_more(more: &Panel, less: &Panel, point: &str, slack: f64) -> Ruling {
    let rule = format!(
        "{}: from 1 to {point} threads at least the gain of {}, by no more than {slack} less",
        more.title, less.title
    );
    if let Some(ruling) = [more, less].into_iter().find_map(|panel| lost(panel, &rule, &[OURS], &["1", point])) {
        return ruling;
    }
    match (gain(more, point), gain(less, point)) {
        (Some(ours), Some(other)) => {
            ruling(rule, ours >= other * (1.0 - slack), format!("{} against {}", short(ours), short(other)))
        }
        _ => not_judged(rule, "runs of ours with both numbers of threads"),
    }
}

/// Ours with this many threads, over ours with one.
fn gain(panel: &Panel, threads: &str) -> Option<f64> {
    let one = height(panel, "1").filter(|one| *one > 0.0)?;
    Some(height(panel, threads)? / one)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::{Death, Judgement, Line, Point};

    fn panel(title: &str, heights: &[f64]) -> Panel {
        let point = |(at, y): (usize, &f64)| Point::at(&(at + 1).to_string(), at as f64 + 1.0, *y);
        let line = Line { engine: OURS.into(), points: heights.iter().enumerate().map(point).collect() };
        Panel { title: title.into(), lines: vec![line], ..Panel::default() }
    }

    #[test]
    fn marks_are_met_or_not_and_say_both_numbers() {
        let (more, less) = (panel("more", &[1e6, 1.9e6]), panel("less", &[1e6, 2e6]));
        let judged = |ruling: Ruling| (ruling.judgement, ruling.rule, ruling.why);
        let (judgement, rule, why) = judged(at_least(&more, "1", 1e6));
        assert_eq!((judgement, &rule[..], &why[..]), (Judgement::Holds, "more, 1: at least 1.00M", "1.00M"));
        assert_eq!(at_least(&more, "1", 1_000_001.0).judgement, Judgement::Fails);
        assert_eq!(within(&more, "1", 1e6, 1e6).judgement, Judgement::Holds);
        assert_eq!(within(&more, "1", 1e5, 9.9e5).judgement, Judgement::Fails);
        assert_eq!(within(&more, "1", 1.1e6, 2e6).judgement, Judgement::Fails);
        assert_eq!(two_threads(&more, 1.9, 2).judgement, Judgement::Holds);
        assert_eq!(two_threads(&more, 1.91, 2).judgement, Judgement::Fails);
        let (judgement, _, why) = judged(gains_more(&more, &less, "2", 0.05));
        assert_eq!((judgement, &why[..]), (Judgement::Holds, "1.90 against 2.00"));
        assert_eq!(gains_more(&more, &less, "2", 0.04).judgement, Judgement::Fails);
    }

    #[test]
    fn what_is_missing_is_not_judged_and_a_death_of_ours_fails() {
        let one = panel("p", &[5.0]);
        for missing in [
            at_least(&one, "2", 1.0),
            within(&one, "2", 1.0, 2.0),
            two_threads(&one, 1.5, 2),
            two_threads(&panel("p", &[1.0, 2.0]), 1.5, 1),
            gains_more(&one, &one, "2", 0.1),
            two_threads(&panel("p", &[0.0, 2.0]), 1.5, 2),
        ] {
            assert_eq!(missing.judgement, Judgement::NotJudged, "{missing:?}");
        }
        let mut dead = panel("p", &[1.0, 2.0]);
        dead.lines[0].points[1] = Point::dead("2", Some(2.0), &Death { why: "killed".into(), ..Death::default() });
        for lost in [
            at_least(&dead, "2", 1.0),
            within(&dead, "2", 1.0, 2.0),
            two_threads(&dead, 1.5, 2),
            gains_more(&dead, &one, "2", 0.1),
        ] {
            assert_eq!(lost.judgement, Judgement::Fails, "{lost:?}");
            assert!(lost.why.contains("killed"), "{lost:?}");
        }
    }
}
