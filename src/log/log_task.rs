//! The two kinds of log work that the log threads do.

/// The two kinds of log work. Each has a thread of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogTask {
    /// What writers wait for: `Log::make_ready`.
    MakeReady,
    /// What waits for the disk: `Log::finish`.
    Finish,
}

/// Which of the two there is reason to do.
#[derive(Clone, Copy, Debug)]
pub struct Due {
    pub(super) make_ready: bool,
    pub(super) finish: bool,
}

impl Due {
    /// Both.
    pub const ALL: Self = Self { make_ready: true, finish: true };

    pub(super) fn of(&mut self, task: LogTask) -> &mut bool {
        match task {
            LogTask::MakeReady => &mut self.make_ready,
            LogTask::Finish => &mut self.finish,
        }
    }
}
