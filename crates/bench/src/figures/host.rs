//! Where a figure's workloads run: in this process, or wherever a caller takes them.

use super::drawing::Death;
use crate::engine::{Factory, Result};
use crate::outcome::Outcome;
use crate::session::{Session, Step};
use crate::watch::Watch;
use std::path::Path;

/// What became of a step.
pub type Ran = std::result::Result<Outcome, Death>;

/// Runs series of steps, each on a store of its own that is gone afterwards.
pub trait Host {
    /// Something came of every step: from the one in which the engine died on, its death. The directory is absent or empty.
    fn run(&self, factory: &dyn Factory, directory: &Path, steps: &[Step]) -> Result<Vec<Ran>>;
}

/// This process. An engine that dies here takes the figure with it.
pub struct InProcess<'a>(pub &'a dyn Watch);

impl Host for InProcess<'_> {
    fn run(&self, factory: &dyn Factory, directory: &Path, steps: &[Step]) -> Result<Vec<Ran>> {
        let Some(first) = steps.first() else { return Ok(Vec::new()) };
        let mut session = Session::new(factory, directory, first.settings.clone())?;
        let ran = steps.iter().map(|step| Ok(Ok(session.step(step, self.0)?))).collect::<Result<_>>()?;
        session.finish()?;
        Ok(ran)
    }
}
