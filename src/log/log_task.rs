//! The two kinds of background work of the log.

/// A kind of log work. Each kind has its own thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogTask {
    /// Work that writers wait for: `Log::make_ready`.
    MakeReady,
    /// Work that waits for the disk: `Log::finish`.
    Finish,
}

/// Which kinds of work are due.
#[derive(Clone, Copy, Debug)]
pub struct Due {
    pub(super) make_ready: bool,
    pub(super) finish: bool,
}

impl Due {
    /// Both.
    pub const ALL: Self = Self { make_ready: true, finish: true };
    /// Neither.
    pub const NONE: Self = Self { make_ready: false, finish: false };

    pub(super) fn of(&mut self, task: LogTask) -> &mut bool {
        match task {
            LogTask::MakeReady => &mut self.make_ready,
            LogTask::Finish => &mut self.finish,
        }
    }
}
