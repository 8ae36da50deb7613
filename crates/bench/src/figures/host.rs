//! Where a figure's workloads run: in this process, or wherever a caller runs them.

use super::drawing::Death;
use crate::engine::{Factory, Result};
use crate::outcome::Outcome;
use crate::progress::Progress;
use crate::session::{Session, Step};
use std::path::Path;

/// The result of a step.
pub type Ran = std::result::Result<Outcome, Death>;

/// Runs series of steps, each on a new store that is removed afterwards.
pub trait Host {
    /// Returns a result for every step: from the step in which the engine died on, its death. The directory is absent
    /// or empty.
    fn run(&self, factory: &dyn Factory, directory: &Path, steps: &[Step]) -> Result<Vec<Ran>>;
}

/// This process. An engine that dies here ends the figure, too.
pub struct InProcess<'a>(pub &'a dyn Progress);

impl Host for InProcess<'_> {
    fn run(&self, factory: &dyn Factory, directory: &Path, steps: &[Step]) -> Result<Vec<Ran>> {
        let Some(first) = steps.first() else { return Ok(Vec::new()) };
        let mut session = Session::new(factory, directory, first.settings.clone())?;
        let ran = steps.iter().map(|step| Ok(Ok(session.step(step, self.0)?))).collect::<Result<_>>()?;
        session.finish()?;
        Ok(ran)
    }
}
