//! Which engine of a figure has the levels that items skip, and what the rules call it.

use crate::engine::{Component, Factory};
use crate::figures::drawing::{Panel, Ruling};
use crate::figures::rules::{self, OURS};
use crate::figures::stage::Stage;

/// The engine that has these levels whatever the figure says.
const SKIP: &str = "alluvium-skip";
/// It, without buffers in memory: what skipped waits in files. The rules take it for another engine.
const SKIP_FILES: &str = "alluvium-skip-files";
/// What the rules see in its place, once `alluvium-skip` has taken its name.
const TRUNK: &str = "alluvium with a trunk";

fn has_skip(engines: &[&dyn Factory]) -> bool {
    engines.iter().any(|factory| factory.name() == SKIP)
}

/// What an engine of ours keeps its data in, unless the user or its name says something else.
pub fn component(engines: &[&dyn Factory], factory: &dyn Factory) -> Component {
    if factory.name() == OURS && has_skip(engines) { Component::Trunk } else { Component::Skip }
}

/// Whether an engine's items skip levels, so that `max_skip` matters to it.
pub fn skips(stage: &Stage<'_>, engines: &[&dyn Factory], factory: &dyn Factory) -> bool {
    let usual = stage.component.unwrap_or(component(engines, factory));
    [SKIP, SKIP_FILES].contains(&factory.name()) || factory.name() == OURS && usual == Component::Skip
}

/// Whether what skipped waits in memory, so that there is something to write by checkpoints.
pub fn has_buffers(stage: &Stage<'_>, engines: &[&dyn Factory], factory: &dyn Factory) -> bool {
    skips(stage, engines, factory) && factory.name() != SKIP_FILES
}

/// The same panel with the store that skips under the name that the rules know.
pub fn as_ours(panel: &Panel) -> Panel {
    let mut panel = panel.clone();
    if panel.line(SKIP).is_some() {
        for line in &mut panel.lines {
            let seen = match &line.engine[..] {
                SKIP => OURS,
                OURS => TRUNK,
                other => other,
            };
            line.engine = seen.into();
        }
    }
    panel
}

/// The store that skips survives every point. Nothing if it did, or is `alluvium`, for which every figure has this rule.
pub fn lives(engines: &[&dyn Factory], panels: &[Panel]) -> Option<Ruling> {
    let seen: Vec<Panel> = panels.iter().map(as_ours).collect();
    has_skip(engines).then(|| rules::lives(&seen))?
}

/// What has which structure.
pub fn condition(stage: &Stage<'_>, engines: &[&dyn Factory]) -> String {
    let ours = engines.iter().find(|factory| factory.name() == OURS);
    let is = |factory: &&dyn Factory| stage.component.unwrap_or(component(engines, *factory)).name();
    match (ours.map(is), has_skip(engines)) {
        (Some(component), true) => format!("ours in the rules: {SKIP}; component of {OURS}: {component}"),
        (Some(component), false) => format!("component of {OURS}: {component}"),
        (None, true) => format!("ours in the rules: {SKIP}"),
        (None, false) => "no engine that skips".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Engine, EngineOptions, Result};
    use crate::figures::{InProcess, Line, Point};
    use std::path::Path;

    struct Named(&'static str);

    impl Factory for Named {
        fn name(&self) -> &str {
            self.0
        }

        fn open(&self, _: &Path, _: &EngineOptions) -> Result<Box<dyn Engine>> {
            Err("never opened".into())
        }
    }

    #[test]
    fn the_name_decides_which_store_skips() {
        let (plain, skip, leveled, rocks) = (Named(OURS), Named(SKIP), Named("alluvium-leveled"), Named("rocksdb"));
        let host = InProcess(&());
        let mut stage = Stage::new(Path::new("."), &host);
        let alone: [&dyn Factory; 3] = [&plain, &leveled, &rocks];
        let both: [&dyn Factory; 2] = [&plain, &skip];
        assert_eq!((component(&alone, &plain), component(&both, &plain)), (Component::Skip, Component::Trunk));
        assert_eq!(alone.map(|factory| skips(&stage, &alone, factory)), [true, false, false]);
        assert_eq!(both.map(|factory| skips(&stage, &both, factory)), [false, true]);
        assert_eq!(condition(&stage, &both), "ours in the rules: alluvium-skip; component of alluvium: trunk");
        let files = Named(SKIP_FILES);
        let waiting: [&dyn Factory; 3] = [&skip, &files, &leveled];
        assert_eq!(waiting.map(|factory| skips(&stage, &waiting, factory)), [true, true, false]);
        assert_eq!(waiting.map(|factory| has_buffers(&stage, &waiting, factory)), [true, false, false]);
        stage.component = Some(Component::Leveled);
        assert!(!skips(&stage, &alone, &plain) && skips(&stage, &both, &skip));
        assert_eq!(condition(&stage, &alone), "component of alluvium: leveled");
    }

    #[test]
    fn rules_see_the_store_that_skips() {
        let line = |engine: &str, y| Line { engine: engine.into(), points: vec![Point::at("1", 1.0, y)] };
        let panel = Panel { lines: vec![line(OURS, 1.0), line(SKIP, 2.0), line("rocksdb", 3.0)], ..Panel::default() };
        let seen = as_ours(&panel);
        assert_eq!(
            ["alluvium", TRUNK, "rocksdb"].map(|name| seen.line(name).unwrap().at("1")),
            [2.0, 1.0, 3.0].map(Some)
        );
        let alone = Panel { lines: vec![line(OURS, 1.0)], ..Panel::default() };
        assert_eq!(as_ours(&alone), alone);
    }
}
