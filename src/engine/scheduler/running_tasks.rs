//! The running tasks: for statistics, and for the progress of compaction requests. Any thread.

use super::compaction_request::CompactionRequest;
use crate::disk::{JobKind, JobScope, Load};
use crate::engine::types::stats::{BackgroundKind, BackgroundTask};
use crate::util::key;
use crate::util::sync::{Arc, AtomicBool, AtomicU64, Mutex, Ordering};
use std::time::Duration;

/// One running task. The counters are relaxed: they are statistics and order nothing.
#[derive(Debug)]
pub(crate) struct RunningTask {
    kind: BackgroundKind,
    scope: Option<JobScope>,
    /// Its input, as far as it is known.
    load: Load,
    since: Duration,
    entries: AtomicU64,
    written: AtomicU64,
    is_paused: AtomicBool,
    /// How long it was paused, nanoseconds.
    paused_ns: AtomicU64,
    pub(crate) request: Option<Arc<CompactionRequest>>,
}

impl RunningTask {
    pub(crate) fn new(kind: BackgroundKind, load: Load, since: Duration) -> Self {
        Self {
            kind,
            scope: None,
            load,
            since,
            entries: AtomicU64::new(0),
            written: AtomicU64::new(0),
            is_paused: AtomicBool::new(false),
            paused_ns: AtomicU64::new(0),
            request: None,
        }
    }

    pub(crate) fn of_job(scope: JobScope, request: Option<Arc<CompactionRequest>>, since: Duration) -> Self {
        let kind = match scope.kind {
            JobKind::Flush => BackgroundKind::Flush,
            JobKind::Merge => BackgroundKind::Merge,
            JobKind::SampleLeaf => BackgroundKind::SampleLeaf,
            JobKind::Split => BackgroundKind::Split,
            JobKind::BuildMaplet => BackgroundKind::BuildMaplet,
            JobKind::RewriteLive => BackgroundKind::RewriteLive,
            JobKind::Join => BackgroundKind::Join,
        };
        Self { request, load: scope.load, scope: Some(scope), ..Self::new(kind, Load::default(), since) }
    }

    /// Notes that the task has read `entries` more entries and written `written` more bytes.
    pub(crate) fn advance(&self, entries: u64, written: u64) {
        self.entries.fetch_add(entries, Ordering::Relaxed);
        self.written.fetch_add(written, Ordering::Relaxed);
    }

    /// Notes that the task pauses, or that it continues after a pause of `paused_ns`.
    pub(crate) fn set_paused(&self, is_paused: bool, paused_ns: u64) {
        self.is_paused.store(is_paused, Ordering::Relaxed);
        self.paused_ns.fetch_add(paused_ns, Ordering::Relaxed);
    }

    /// Bytes of its input that it has read.
    pub(crate) fn bytes_done(&self) -> u64 {
        let (done, all) = (self.entries.load(Ordering::Relaxed), self.load.entries.max(1));
        (u128::from(self.load.bytes) * u128::from(done.min(all)) / u128::from(all)) as u64
    }

    /// Bytes of its whole input.
    pub(crate) fn bytes(&self) -> u64 {
        self.load.bytes
    }

    pub(crate) fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// How long it has run, pauses included.
    pub(crate) fn runs_for(&self, now: Duration) -> Duration {
        now.saturating_sub(self.since)
    }

    /// How long it has worked, pauses excluded.
    pub(crate) fn worked(&self, now: Duration) -> Duration {
        self.runs_for(now).saturating_sub(Duration::from_nanos(self.paused_ns.load(Ordering::Relaxed)))
    }

    /// Whether it writes branch files, or looks through them.
    pub(crate) fn is_of_files(&self) -> bool {
        self.scope.is_some() || self.kind == BackgroundKind::Incorporate
    }

    /// What it is and has done.
    pub(crate) fn describe(&self, now: Duration) -> BackgroundTask {
        let user_key = |encoded: &[u8]| key::split(encoded).map(|(_, user)| user.to_vec()).unwrap_or_default();
        let scope = self.scope.as_ref();
        BackgroundTask {
            kind: self.kind,
            node: scope.and_then(|scope| scope.node).map(|node| node.0),
            height: scope.map(|scope| scope.height),
            from: scope.map(|scope| user_key(&scope.lower)).unwrap_or_default(),
            to: scope.and_then(|scope| scope.upper.as_deref()).map(user_key),
            bytes_done: self.bytes_done(),
            bytes_total: self.load.bytes,
            bytes_written: self.written(),
            runs_for: self.runs_for(now),
            paused: self.is_paused.load(Ordering::Relaxed),
        }
    }
}

/// All running tasks.
#[derive(Debug, Default)]
pub(crate) struct RunningTasks {
    tasks: Mutex<Vec<Arc<RunningTask>>>,
    /// How many have begun; a relaxed statistic.
    begun: AtomicU64,
}

impl RunningTasks {
    /// Lists a task until the guard is dropped, also by a panic.
    pub(crate) fn begin(&self, task: RunningTask) -> Listed<'_> {
        let task = Arc::new(task);
        self.begun.fetch_add(1, Ordering::Relaxed);
        self.tasks.lock().push(Arc::clone(&task));
        Listed { tasks: self, task }
    }

    pub(crate) fn describe(&self, now: Duration) -> Vec<BackgroundTask> {
        self.tasks.lock().iter().map(|task| task.describe(now)).collect()
    }

    /// How many tasks have begun.
    pub(crate) fn begun(&self) -> u64 {
        self.begun.load(Ordering::Relaxed)
    }

    /// A number that changes when a task begins, and as long as tasks read entries or write.
    pub(crate) fn progress(&self) -> u64 {
        let amount = |task: &Arc<RunningTask>| task.entries.load(Ordering::Relaxed).wrapping_add(task.written());
        let amounts = self.tasks.lock().iter().map(amount).fold(0, u64::wrapping_add);
        amounts.wrapping_add(self.begun() << 48)
    }

    /// Bytes of input that the tasks of a request have read.
    pub(crate) fn bytes_done_for(&self, request: &Arc<CompactionRequest>) -> u64 {
        let tasks = self.tasks.lock();
        let own = tasks.iter().filter(|task| task.request.as_ref().is_some_and(|own| Arc::ptr_eq(own, request)));
        own.map(|task| task.bytes_done()).sum()
    }
}

/// Keeps a task in the list.
pub(crate) struct Listed<'a> {
    tasks: &'a RunningTasks,
    task: Arc<RunningTask>,
}

impl Listed<'_> {
    pub(crate) fn task(&self) -> &RunningTask {
        &self.task
    }
}

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        self.tasks.tasks.lock().retain(|other| !Arc::ptr_eq(other, &self.task));
    }
}
