//! Every figure at a tiny size, with ours alone and with a second engine under another store's name.

use super::{ALL, Death, Drawing, Host, InProcess, Judgement, Line, Ran, Stage, named, plot};
use crate::engine::{Component, Engine, EngineOptions, Factory, LevelKnobs, Result};
use crate::{Alluvium, Step};
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

/// Alluvium under another name: enough for the framework, which only knows the trait.
struct Rival;

impl Factory for Rival {
    fn name(&self) -> &str {
        "rocksdb"
    }

    fn open(&self, directory: &Path, options: &EngineOptions) -> Result<Box<dyn Engine>> {
        Alluvium.open(directory, options)
    }
}

/// Here, without a progress display.
const HERE: InProcess<'_> = InProcess(&());

fn tiny<'a>(directory: &'a Path, host: &'a dyn Host) -> Stage<'a> {
    let mut stage = Stage::new(directory, host);
    stage.num = Some(2000);
    stage.duration = Duration::from_millis(20);
    (stage.memory, stage.threads_max, stage.check) = (Some(16 << 20), Some(2), true);
    stage
}

#[test]
fn every_figure_is_drawn_and_claims_on_rivals_are_judged_only_with_rivals() {
    let directory = tempfile::tempdir().unwrap();
    for figure in &ALL {
        let alone: &[&dyn Factory] = &[&Alluvium];
        // Rules have their own tests: one figure of each paper is enough here.
        let with_alone = ["clsm-5", "flodb-9", "kanda-mix", "skipstore-9", "splinterdb-9"].contains(&figure.name);
        for engines in with_alone.then_some(alone).into_iter().chain([&[&Alluvium as &dyn Factory, &Rival][..]]) {
            let drawing = (figure.draw)(figure, &tiny(directory.path(), &HERE), engines).unwrap();
            assert_eq!((drawing.figure.as_str(), drawing.claim.as_str()), (figure.name, figure.claim));
            assert!(!drawing.conditions.is_empty() && !drawing.rulings.is_empty(), "{}", figure.name);
            for panel in &drawing.panels {
                let asked = panel.lines.iter().filter(|line| engines.iter().any(|engine| engine.name() == line.engine));
                assert_eq!(asked.count(), engines.len(), "{}", figure.name);
                // What fits in memory may not be read from disk at all, and few keys are in one level only, or not compacted.
                let one_level = panel.title.starts_with("run sizes") || panel.title.starts_with("levels skipped");
                // Nor is anything left in memory then.
                let of_buffers = panel.title.starts_with("record") || panel.title.starts_with("pairs from");
                let may_be_nothing = panel.title.contains("read") || of_buffers || one_level;
                let drawn = |line: &Line| one_level || line.points.len() >= 2 && (line.peak() > 0.0 || may_be_nothing);
                assert!(panel.lines.iter().all(drawn), "{panel:?}");
                assert!(plot(panel).contains("A alluvium") || may_be_nothing);
            }
            let on_rival = drawing
                .rulings
                .iter()
                .filter(|ruling| ruling.rule.contains("rocksdb") || ruling.rule.contains("competitor"));
            for ruling in on_rival.filter(|ruling| !ruling.why.contains("cores")) {
                assert_eq!(ruling.judgement == Judgement::NotJudged, engines.len() == 1, "{ruling:?}");
            }
            let json = serde_json::to_string(&drawing).unwrap();
            assert_eq!(serde_json::from_str::<super::Drawing>(&json).unwrap().rulings, drawing.rulings);
        }
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "stores are left over");
}

#[test]
fn names_are_found_or_listed() {
    let names = |name| -> Vec<&str> { named(name).unwrap().iter().map(|figure| figure.name).collect() };
    assert_eq!(names("clsm-5"), ["clsm-5"]);
    assert_eq!(names("clsm"), ["1", "5", "6", "7", "8", "9", "10", "11"].map(|number| format!("clsm-{number}")));
    let flodb = ["3", "9", "10", "11", "12", "13", "14", "15", "16"];
    assert_eq!(names("flodb"), flodb.map(|number| format!("flodb-{number}")));
    let kanda = ["table-1", "table-2", "table-3", "mix", "skew", "filter", "threads", "runs"];
    assert_eq!(names("kanda"), kanda.map(|name| format!("kanda-{name}")));
    let skipstore = [
        "2",
        "2-compressed",
        "3",
        "9",
        "9-limited",
        "memtable",
        "10",
        "table-3",
        "11",
        "11-buffers",
        "table-4",
        "scans",
        "recovery",
    ];
    assert_eq!(names("skipstore"), skipstore.map(|name| format!("skipstore-{name}")));
    assert_eq!((names("splinterdb").len(), names("all").len()), (9, ALL.len()));
    for unknown in ["clsm-55", "clsm-", "splinter", ""] {
        let error = named(unknown).map(|figures| figures.len()).unwrap_err().to_string();
        assert!(error.contains("clsm-6") && error.contains("splinterdb-5"), "{error}");
    }
}

/// The memory that each store was given.
#[derive(Default)]
struct Told(Mutex<Vec<(String, u64)>>);

impl Host for Told {
    fn run(&self, factory: &dyn Factory, directory: &Path, steps: &[Step]) -> Result<Vec<Ran>> {
        let memory = steps[0].settings.engine.memory.unwrap();
        self.0.lock().unwrap().push((factory.name().to_string(), memory >> 20));
        HERE.run(factory, directory, steps)
    }
}

/// The paper's memory is a tenth of the data; a host that limits engines gets every store's size, the smallest first.
#[test]
fn memory_follows_from_the_data_and_is_told_before_each_store() {
    let (directory, told) = (tempfile::tempdir().unwrap(), Told::default());
    let mut stage = tiny(directory.path(), &told);
    let draw = |name: &str, stage: &Stage<'_>| {
        let figure = named(name).unwrap()[0];
        (figure.draw)(figure, stage, &[&Alluvium]).unwrap()
    };
    draw("splinterdb-7", &stage);
    stage.memory = None;
    let drawing = draw("splinterdb-table-1", &stage);
    assert!(drawing.conditions[0].contains("2000 keys of 24 bytes") && drawing.conditions[0].contains("96 MiB"));
    let sizes: Vec<u64> = told.0.lock().unwrap().iter().map(|(_, mebibytes)| *mebibytes).collect();
    assert_eq!(sizes, [16, 40, 80, 96]);
}

/// What keeps the data on disk is the figure's choice, unless the user has one.
#[test]
fn the_user_s_component_comes_before_the_figure_s() {
    struct Seen(Mutex<Vec<EngineOptions>>);
    impl Host for Seen {
        fn run(&self, factory: &dyn Factory, directory: &Path, steps: &[Step]) -> Result<Vec<Ran>> {
            self.0.lock().unwrap().push(steps[0].settings.engine);
            HERE.run(factory, directory, steps)
        }
    }
    let (directory, seen) = (tempfile::tempdir().unwrap(), Seen(Mutex::default()));
    let mut stage = tiny(directory.path(), &seen);
    let component = |name: &str, stage: &Stage<'_>| {
        let figure = named(name).unwrap()[0];
        (figure.draw)(figure, stage, &[&Alluvium]).unwrap();
        seen.0.lock().unwrap().drain(..).next_back().unwrap()
    };
    assert_eq!(component("kanda-runs", &stage).component, Some(Component::Tiered));
    let options = component("kanda-table-3", &stage);
    let levels = LevelKnobs { runs: Some(8), merge_percent: Some(100), ..LevelKnobs::default() };
    assert_eq!(options.levels, levels);
    stage.component = Some(Component::Leveled);
    assert_eq!(component("kanda-runs", &stage).component, Some(Component::Leveled));
    assert_eq!(component("flodb-16", &stage).component, Some(Component::Leveled));
}

/// Kills one engine in the last step of every series.
struct Deadly(&'static str);

impl Host for Deadly {
    fn run(&self, factory: &dyn Factory, directory: &Path, steps: &[Step]) -> Result<Vec<Ran>> {
        let mut ran = HERE.run(factory, directory, steps)?;
        if factory.name() == self.0 {
            let workload = steps.last().unwrap().workload.name.clone();
            *ran.last_mut().unwrap() = Err(Death { workload, why: "killed".into(), ..Death::default() });
        }
        Ok(ran)
    }
}

/// One figure of each kind: whose series have one point each, and whose have more.
#[test]
fn an_engine_that_dies_leaves_the_others_their_points() {
    let directory = tempfile::tempdir().unwrap();
    let names = [
        "clsm-6",
        "clsm-8",
        "clsm-10",
        "flodb-3",
        "flodb-12",
        "flodb-14",
        "flodb-16",
        "kanda-table-1",
        "kanda-table-3",
        "kanda-threads",
        "skipstore-9",
        "skipstore-10",
        "skipstore-table-3",
        "skipstore-recovery",
        "splinterdb-5",
        "splinterdb-7",
        "splinterdb-table-1",
        "splinterdb-9",
    ];
    for (name, dead) in names.into_iter().flat_map(|name| [(name, "rocksdb"), (name, "alluvium")]) {
        let figure = named(name).unwrap()[0];
        let drawing = (figure.draw)(figure, &tiny(directory.path(), &Deadly(dead)), &[&Alluvium, &Rival]).unwrap();
        let points = drawing
            .panels
            .iter()
            .flat_map(|panel| &panel.lines)
            .flat_map(|line| line.points.iter().map(|point| (line.engine.as_str(), point)));
        let (died, lived): (Vec<_>, Vec<_>) = points.partition(|(_, point)| point.died.is_some());
        assert!(!died.is_empty() && died.iter().all(|(engine, point)| *engine == dead && point.y.is_none()), "{name}");
        assert!(lived.iter().any(|(engine, _)| *engine != dead) && lived.iter().all(|(_, point)| point.y.is_some()));
        let named = drawing.rulings.iter().filter(|ruling| ruling.why.contains("died: killed"));
        let expected = if dead == "alluvium" { Judgement::Fails } else { Judgement::NotJudged };
        assert!(named.clone().all(|ruling| ruling.judgement == expected), "{name}: {named:?}");
        let lives = named.filter(|ruling| ruling.rule.ends_with("alluvium survives every point")).count();
        assert_eq!(lives, usize::from(dead == "alluvium"), "{name}");
        let json = serde_json::to_string(&drawing).unwrap();
        assert!(json.contains("\"y\":null") && json.contains("\"why\":\"killed\""), "{json}");
        assert_eq!(serde_json::from_str::<Drawing>(&json).unwrap().rulings, drawing.rulings);
    }
}

#[test]
fn threads_double_up_to_the_bound() {
    let mut stage = tiny(Path::new("."), &HERE);
    stage.threads_max = Some(12);
    assert_eq!(stage.threads(), [1, 2, 4, 8]);
    (stage.threads_max, stage.cores) = (None, 2);
    assert_eq!(stage.threads(), [1, 2, 4, 8]);
    stage.cores = 64;
    assert_eq!(stage.threads(), [1, 2, 4, 8, 16]);
}
