//! The lanes of a store's background work, and what a store tells its pool. Pure data.

use std::time::Duration;

/// A kind of background work with its own limit of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lane {
    /// Makes the next log segment ready. Writers wait for it.
    MakeReady,
    /// Seals and syncs the log, at the interval that bounds what a power loss takes.
    Finish,
    /// Any task of the scheduler: merges, too.
    Work,
    /// Only tasks that free memory, while every thread of `Work` is busy.
    Memory,
}

/// All of them, most urgent first.
pub(super) const LANES: [Lane; 4] = [Lane::MakeReady, Lane::Finish, Lane::Work, Lane::Memory];
pub(super) const LOG_LANES: [Lane; 2] = [Lane::MakeReady, Lane::Finish];
/// The lanes that run the scheduler's tasks.
pub(super) const TASK_LANES: [Lane; 2] = [Lane::Work, Lane::Memory];

/// A set of lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lanes(pub(super) u8);

impl Lanes {
    pub(super) const ALL: Self = Self(0b1111);
    /// The lanes that run the scheduler's tasks.
    pub(crate) const TASKS: Self = Self(1 << Lane::Work as u8 | 1 << Lane::Memory as u8);

    pub(super) fn contains(self, lane: Lane) -> bool {
        self.0 & Self::from(lane).0 != 0
    }
}

impl From<Lane> for Lanes {
    fn from(lane: Lane) -> Self {
        Self(1 << lane as u8)
    }
}

/// When a lane is to be run next, apart from wake-ups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Not before it is woken.
    WhenWoken,
    /// At once, after other stores had their turn.
    Again,
    /// After this time.
    After(Duration),
}

/// A store, as the pool sees it. The pool's threads call it.
pub(crate) trait PoolClient: Send + Sync {
    /// Does one piece of a lane's work.
    fn run(&self, lane: Lane) -> Next;

    /// When the timer of `Finish` is due: if there is nothing to do but to look again later, returns when. Then no thread
    /// runs the lane. Called under the pool's lock.
    fn stays_idle(&self) -> Option<Duration>;

    /// A number that changes as long as the tasks of the lanes `Work` and `Memory` get on. Called under the pool's lock.
    fn progress(&self) -> u64;
}
