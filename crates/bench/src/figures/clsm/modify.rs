//! Figure 9: read-modify-writes compared with lock striping. LevelDB has no other way, as in the paper; nor does
//! RocksDB here. Ours with locks around its gets and puts separates the effect of the algorithm from that of the store.

use super::{POPULAR, Scale, WRITERS_CORES_MIN, line, panel};
use crate::AlluviumStriped;
use crate::engine::{Factory, Result};
use crate::figures::drawing::{Drawing, Panel};
use crate::figures::stage::Stage;
use crate::figures::{Figure, rules};
use crate::workload::Mix;

const SCALE: Scale = Scale { keys: 500_000, key_bytes: 8, value_bytes: 256, memory: 1 << 30, paper: "150 GB" };

/// Figure 9.
pub const MODIFY: Figure = Figure {
    name: "clsm-9",
    source: "cLSM, figure 9",
    claim: "put-if-absent with locality: 2.5 times LevelDB with lock striping",
    draw: |figure, stage, engines| {
        let absent = Mix { if_absent_new: 1, if_absent_old: 1, choice: Some(POPULAR), ..Mix::default() };
        let absent = by_threads("put if absent", &absent, stage, engines)?;
        let updates = Mix { modify: 1, choice: Some(POPULAR), ..Mix::default() };
        let updates = by_threads("read, modify, write", &updates, stage, engines)?;
        let mut rulings = Vec::new();
        for panel in [&absent, &updates] {
            // The paper makes no claim about ours with locks.
            let rivals = [("leveldb", 2.5), ("rocksdb", 2.0)];
            rulings.extend(rivals.map(|(rival, factor)| rules::best_ahead_of(panel, rival, factor)));
            rulings.push(rules::scales(panel, 2.5, stage.cores, WRITERS_CORES_MIN));
        }
        let mut conditions = SCALE.conditions(stage);
        conditions.push(
            "put if absent: half of the keys are new, half are loaded, 90% of these in 10% of the blocks; \
             a new store for each point"
                .into(),
        );
        Ok(Drawing::of(figure, conditions, vec![absent, updates], rulings))
    },
};

/// Every point loads a new store, so that none depends on the one before.
fn by_threads(title: &str, mix: &Mix, stage: &Stage<'_>, engines: &[&dyn Factory]) -> Result<Panel> {
    let striped: &dyn Factory = &AlluviumStriped;
    let named = engines.iter().any(|engine| engine.name() == striped.name());
    let mut lines = Vec::new();
    for engine in engines.iter().copied().chain((!named).then_some(striped)) {
        let mut ran = Vec::new();
        for threads in stage.threads() {
            ran.extend(SCALE.behind_load(stage, engine, title, &[(threads, mix.clone())])?);
        }
        lines.push(line(engine.name(), &stage.threads(), &ran));
    }
    Ok(panel(title, lines))
}
