//! What runs in the background now: for whoever looks, and for the work itself, which is counted, slowed, held and ended here.
//!
//! A `TaskControl` goes along with one task, on its thread; the list may be read from any.

use super::compaction_request::CompactionRequest;
use crate::disk::{JobKind, JobScope, Load, Progress};
use crate::engine::engine::{Driver, Engine};
use crate::engine::state::rate_limit::Class;
use crate::engine::types::stats::{BackgroundKind, BackgroundTask};
use crate::util::key;
use crate::util::sync::{Arc, AtomicBool, AtomicU64, Mutex, Ordering};
use std::time::Duration;

/// A held or slowed task looks so often whether it is to end.
const LOOK: Duration = Duration::from_millis(10);
/// From here on the speed of an incorporation that still runs is worth knowing.
const TELLING: Duration = Duration::from_millis(50);

/// One task that runs. Counters are relaxed: figures order nothing.
#[derive(Debug)]
pub(crate) struct Running {
    kind: BackgroundKind,
    scope: Option<JobScope>,
    /// What it has to read, as far as that is known.
    load: Load,
    since: Duration,
    entries: AtomicU64,
    written: AtomicU64,
    held: AtomicBool,
    /// How long it was held, nanoseconds.
    held_ns: AtomicU64,
    pub(crate) request: Option<Arc<CompactionRequest>>,
}

impl Running {
    pub(crate) fn new(kind: BackgroundKind, load: Load, since: Duration) -> Self {
        Self {
            kind,
            scope: None,
            load,
            since,
            entries: AtomicU64::new(0),
            written: AtomicU64::new(0),
            held: AtomicBool::new(false),
            held_ns: AtomicU64::new(0),
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

    /// Bytes of what it reads that it has behind it.
    pub(crate) fn bytes_done(&self) -> u64 {
        let (done, all) = (self.entries.load(Ordering::Relaxed), self.load.entries.max(1));
        (u128::from(self.load.bytes) * u128::from(done.min(all)) / u128::from(all)) as u64
    }

    /// Bytes of what it reads in all.
    pub(crate) fn bytes(&self) -> u64 {
        self.load.bytes
    }

    pub(crate) fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// How long it has worked.
    pub(crate) fn worked(&self, now: Duration) -> Duration {
        let held = Duration::from_nanos(self.held_ns.load(Ordering::Relaxed));
        now.saturating_sub(self.since).saturating_sub(held)
    }

    fn describe(&self, now: Duration) -> BackgroundTask {
        let user_key = |encoded: &[u8]| key::split(encoded).map(|(_, user)| user.to_vec()).unwrap_or_default();
        let scope = self.scope.as_ref();
        BackgroundTask {
            kind: self.kind,
            node: scope.map(|scope| scope.node.0),
            height: scope.map(|scope| scope.height),
            from: scope.map(|scope| user_key(&scope.lower)).unwrap_or_default(),
            to: scope.and_then(|scope| scope.upper.as_deref()).map(user_key),
            bytes_done: self.bytes_done(),
            bytes_total: self.load.bytes,
            bytes_written: self.written(),
            runs_for: now.saturating_sub(self.since),
            paused: self.held.load(Ordering::Relaxed),
        }
    }
}

/// All that run. Any thread.
#[derive(Debug, Default)]
pub(crate) struct RunningTasks(Mutex<Vec<Arc<Running>>>);

impl RunningTasks {
    pub(crate) fn begin(&self, running: Running) -> Arc<Running> {
        let running = Arc::new(running);
        self.0.lock().push(Arc::clone(&running));
        running
    }

    pub(crate) fn end(&self, running: &Arc<Running>) {
        self.0.lock().retain(|other| !Arc::ptr_eq(other, running));
    }

    pub(crate) fn describe(&self, now: Duration) -> Vec<BackgroundTask> {
        self.0.lock().iter().map(|running| running.describe(now)).collect()
    }

    /// What those that run for a wish have behind them, bytes.
    pub(crate) fn done_for(&self, request: &Arc<CompactionRequest>) -> u64 {
        let running = self.0.lock();
        let own =
            running.iter().filter(|running| running.request.as_ref().is_some_and(|own| Arc::ptr_eq(own, request)));
        own.map(|running| running.bytes_done()).sum()
    }
}

/// See the module.
pub(crate) struct TaskControl<'a> {
    pub(crate) inner: &'a Engine,
    pub(crate) running: &'a Running,
    pub(crate) class: Class,
}

impl TaskControl<'_> {
    /// Whether the task is to end: the store closes, or whoever wanted it does not any more.
    fn is_cancelled(&self) -> bool {
        self.inner.work.is_cancelled() || self.running.request.as_ref().is_some_and(|request| request.is_cancelled())
    }

    /// Stays here while background work is paused.
    fn wait_while_paused(&self) {
        let inner = self.inner;
        if self.class == Class::Memory || !inner.work.is_paused() || inner.driver == Driver::Deterministic {
            return;
        }
        let started = inner.clock.now();
        self.running.held.store(true, Ordering::Relaxed);
        inner.work.park(|| self.is_cancelled());
        self.running.held.store(false, Ordering::Relaxed);
        let held = inner.clock.now().saturating_sub(started).as_nanos() as u64;
        self.running.held_ns.fetch_add(held, Ordering::Relaxed);
    }

    fn tell_speed(&self, now: Duration) {
        let took = now.saturating_sub(self.running.since);
        if self.class == Class::Memory && took >= TELLING {
            self.inner.speed.note_running(self.running.bytes_done(), took);
        }
    }
}

impl Progress for TaskControl<'_> {
    fn advance(&self, entries: u64, written: u64) -> bool {
        self.running.entries.fetch_add(entries, Ordering::Relaxed);
        self.running.written.fetch_add(written, Ordering::Relaxed);
        let (inner, mut now) = (self.inner, self.inner.clock.now());
        self.tell_speed(now);
        let end = inner.write_limit.charge(written, self.class, now);
        loop {
            self.wait_while_paused();
            if self.is_cancelled() {
                return false;
            }
            if !inner.write_limit.holds(end, now) {
                return true;
            }
            inner.clock.sleep(end.saturating_sub(now).min(LOOK));
            now = inner.clock.now();
        }
    }
}
