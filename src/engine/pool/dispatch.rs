//! Which lane of which store may run now: queues, limits and timers. Pure, except that it asks stores for their
//! progress and whether they are idle. Under the pool's lock; times are of the pool's clock.
//!
//! Invariants:
//! 1. A store is at most once in each queue. Its entry is removed when the run begins, so a wake-up during the run leads
//!    to another run.
//! 2. Queues are first in, first out among the stores that may run.
//! 3. A lane of a store has at most one timer. It ends when a run of the lane begins.

use super::bell::Bell;
use super::lane::{LANES, Lane, Lanes, Next, PoolClient};
use crate::util::sync::Arc;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// Runs of the lanes `MakeReady` and `Finish` that count. The second takes more, because it waits for disks.
const MAKE_READY_MAX: usize = 2;
const FINISH_MAX: usize = 4;
/// How long a run counts without progress. The lanes of the log report none, so a run that takes longer (a slow disk)
/// makes way for one more.
const GRACE: [Duration; 4] =
    [Duration::from_millis(5), Duration::from_millis(20), Duration::from_secs(2), Duration::from_millis(500)];
/// Places for runs that do not count, in all lanes together, and those of them that only the log's lanes take.
const SPARE_RUNS: usize = 64;
const SPARE_LOG_RUNS: usize = 32;

/// Identifies a store in its pool, for as long as it is a member.
pub(super) type MemberId = usize;
/// Identifies a run.
pub(super) type RunId = u64;

/// A store of the pool.
struct Member {
    client: Arc<dyn PoolClient>,
    bell: Arc<Bell>,
    /// The most runs in the lane `Work`.
    workers: usize,
    queued: Lanes,
    due: [Option<Duration>; 4],
    is_leaving: bool,
}

/// One run.
struct Run {
    member: MemberId,
    lane: Lane,
    /// The latest progress, and when it was noticed.
    progress: u64,
    advanced: Duration,
    is_waiting: bool,
}

impl Run {
    fn counts(&self, now: Duration) -> bool {
        !self.is_waiting && now < self.advanced + GRACE[self.lane as usize]
    }
}

/// A run that begins.
pub(super) struct Started {
    pub(super) run: RunId,
    pub(super) client: Arc<dyn PoolClient>,
    pub(super) lane: Lane,
}

/// See the module.
pub(super) struct Dispatch {
    /// How many runs of the lane `Work` count.
    workers: usize,
    members: Vec<Option<Member>>,
    queues: [VecDeque<MemberId>; 4],
    runs: BTreeMap<RunId, Run>,
    next_run: RunId,
    timers: BTreeSet<(Duration, MemberId, Lane)>,
}

impl Dispatch {
    pub(super) fn new(workers: usize) -> Self {
        Self {
            workers: workers.max(1),
            members: Vec::new(),
            queues: Default::default(),
            runs: BTreeMap::new(),
            next_run: 0,
            timers: BTreeSet::new(),
        }
    }

    /// The place that the next member gets.
    pub(super) fn free_place(&self) -> MemberId {
        self.members.iter().position(Option::is_none).unwrap_or(self.members.len())
    }

    /// Takes a store into the free place `member`. Every lane is queued.
    pub(super) fn enter(&mut self, member: MemberId, client: Arc<dyn PoolClient>, bell: Arc<Bell>, workers: usize) {
        let entered = Member { client, bell, workers, queued: Lanes(0), due: [None; 4], is_leaving: false };
        if member == self.members.len() {
            self.members.push(None);
        }
        self.members[member] = Some(entered);
        self.queue(member, Lanes::ALL);
    }

    /// Begins no more runs of a store.
    pub(super) fn begin_leaving(&mut self, member: MemberId) {
        for queue in &mut self.queues {
            queue.retain(|queued| *queued != member);
        }
        self.timers.retain(|timer| timer.1 != member);
        if let Some(member) = self.member(member) {
            member.is_leaving = true;
        }
    }

    /// Removes a store without runs. The caller drops what it gets without the pool's lock.
    pub(super) fn leave(&mut self, member: MemberId) -> Option<impl Sized + use<>> {
        debug_assert!(!self.is_running(member));
        self.members.get_mut(member).and_then(Option::take)
    }

    pub(super) fn is_running(&self, member: MemberId) -> bool {
        self.runs.values().any(|run| run.member == member)
    }

    /// Whether no store is a member.
    pub(super) fn is_unused(&self) -> bool {
        self.members.iter().all(Option::is_none)
    }

    fn member(&mut self, member: MemberId) -> Option<&mut Member> {
        self.members.get_mut(member)?.as_mut()
    }

    /// Queues what the bell of a store asks for.
    pub(super) fn answer_bell(&mut self, member: MemberId) {
        if let Some(lanes) = self.member(member).map(|member| member.bell.take()) {
            self.queue(member, lanes);
        }
    }

    fn queue(&mut self, id: MemberId, lanes: Lanes) {
        let Some(Some(member)) = self.members.get_mut(id) else { return };
        if member.is_leaving {
            return;
        }
        for lane in LANES.into_iter().filter(|lane| lanes.contains(*lane)) {
            if !member.queued.contains(lane) {
                member.queued.0 |= Lanes::from(lane).0;
                self.queues[lane as usize].push_back(id);
            }
        }
    }

    /// Begins the most urgent run that may run, if there is one.
    pub(super) fn next_run(&mut self, now: Duration) -> Option<Started> {
        while let Some((due, member, lane)) = self.timers.first().copied()
            && due <= now
        {
            self.timers.pop_first();
            let Some(Some(of_timer)) = self.members.get_mut(member) else { continue };
            of_timer.due[lane as usize] = None;
            match of_timer.client.stays_idle().filter(|_| lane == Lane::Finish) {
                Some(time) => self.set_timer(member, lane, now.saturating_add(time)),
                None => self.queue(member, lane.into()),
            }
        }
        self.next_of(&LANES, now)
    }

    /// Begins the most urgent run of these lanes that may run, without a look at the timers.
    pub(super) fn next_of(&mut self, lanes: &[Lane], now: Duration) -> Option<Started> {
        lanes.iter().find_map(|lane| self.next_in(*lane, now))
    }

    /// Whether a run of one of these lanes is queued.
    pub(super) fn is_queued(&self, lanes: &[Lane]) -> bool {
        lanes.iter().any(|lane| !self.queues[*lane as usize].is_empty())
    }

    fn next_in(&mut self, lane: Lane, now: Duration) -> Option<Started> {
        if self.queues[lane as usize].is_empty() || self.runs.len() >= self.runs_max(lane) {
            return None;
        }
        self.look_for_progress(lane, now);
        let at = match lane {
            Lane::Work => self.choose_worker(now),
            _ => self.choose_single(lane, now),
        }?;
        let id = self.queues[lane as usize].remove(at)?;
        self.dequeue(id, lane);
        if lane == Lane::Work && self.members[id].as_ref().is_some_and(|member| member.queued.contains(Lane::Memory)) {
            // A run of `Work` looks for these tasks first.
            self.queues[Lane::Memory as usize].retain(|queued| *queued != id);
            self.dequeue(id, Lane::Memory);
        }
        let client = Arc::clone(&self.members[id].as_ref()?.client);
        let run = self.next_run;
        self.next_run += 1;
        let progress = client.progress();
        self.runs.insert(run, Run { member: id, lane, progress, advanced: now, is_waiting: false });
        Some(Started { run, client, lane })
    }

    fn dequeue(&mut self, id: MemberId, lane: Lane) {
        let Some(Some(member)) = self.members.get_mut(id) else { return };
        member.queued.0 &= !Lanes::from(lane).0;
        if let Some(due) = member.due[lane as usize].take() {
            self.timers.remove(&(due, id, lane));
        }
    }

    /// The most runs at which one of this lane may begin.
    fn runs_max(&self, lane: Lane) -> usize {
        let all = self.workers * 3 / 2 + self.memory_max() + MAKE_READY_MAX + FINISH_MAX + SPARE_RUNS;
        match lane {
            Lane::MakeReady | Lane::Finish => all,
            Lane::Work | Lane::Memory => all - SPARE_LOG_RUNS,
        }
    }

    fn memory_max(&self) -> usize {
        (self.workers / 2).max(2)
    }

    fn choose_single(&self, lane: Lane, now: Duration) -> Option<usize> {
        let limit = match lane {
            Lane::MakeReady => MAKE_READY_MAX,
            Lane::Finish => FINISH_MAX,
            Lane::Work | Lane::Memory => self.memory_max(),
        };
        let in_lane = || self.runs.values().filter(|run| run.lane == lane);
        if in_lane().filter(|run| run.counts(now)).count() >= limit {
            return None;
        }
        let is_free = |id: &MemberId| in_lane().all(|run| run.member != *id);
        self.queues[lane as usize].iter().position(is_free)
    }

    /// Invariant 3 of the module `pool`.
    fn choose_worker(&self, now: Duration) -> Option<usize> {
        // The runs of each store: all of them, and those that count.
        let mut held: BTreeMap<MemberId, (usize, usize)> = BTreeMap::new();
        for run in self.runs.values().filter(|run| run.lane == Lane::Work) {
            let (all, counted) = held.entry(run.member).or_default();
            *all += 1;
            *counted += usize::from(run.counts(now));
        }
        let half = (self.workers / 2).max(1);
        let all_of = |id: &MemberId| held.get(id).map_or(0, |(all, _)| *all);
        let may_run = |id: &MemberId| self.members[*id].as_ref().is_some_and(|member| all_of(id) < member.workers);
        let queue = &self.queues[Lane::Work as usize];
        let (at, counted): (usize, usize) = match queue.iter().position(|id| may_run(id) && all_of(id) < half) {
            Some(at) => (at, held.values().map(|(_, counted)| *counted.min(&half)).sum()),
            None => (queue.iter().position(may_run)?, held.values().map(|(_, counted)| *counted).sum()),
        };
        (counted < self.workers).then_some(at)
    }

    fn look_for_progress(&mut self, lane: Lane, now: Duration) {
        if matches!(lane, Lane::MakeReady | Lane::Finish) {
            return;
        }
        for run in self.runs.values_mut().filter(|run| run.lane == lane) {
            let progress = self.members[run.member].as_ref().map_or(0, |member| member.client.progress());
            if progress != run.progress {
                (run.progress, run.advanced) = (progress, now);
            }
        }
    }

    /// Ends a run. Returns whether somebody waits for that.
    pub(super) fn end(&mut self, run: RunId, next: Next, now: Duration) -> bool {
        let Some(Run { member: id, lane, .. }) = self.runs.remove(&run) else { return false };
        let Some(member) = self.member(id) else { return false };
        if member.is_leaving {
            return true;
        }
        match next {
            Next::WhenWoken => {}
            Next::Again => self.queue(id, lane.into()),
            Next::After(time) => self.set_timer(id, lane, now.saturating_add(time)),
        }
        false
    }

    /// Sets a timer, unless an earlier one is set.
    fn set_timer(&mut self, id: MemberId, lane: Lane, due: Duration) {
        let Some(Some(member)) = self.members.get_mut(id) else { return };
        let set = &mut member.due[lane as usize];
        if set.is_none_or(|set| due < set) {
            if let Some(later) = set.replace(due) {
                self.timers.remove(&(later, id, lane));
            }
            self.timers.insert((due, id, lane));
        }
    }

    /// Sets whether a run only waits.
    pub(super) fn set_waiting(&mut self, run: RunId, is_waiting: bool, now: Duration) {
        if let Some(run) = self.runs.get_mut(&run) {
            run.is_waiting = is_waiting;
            run.advanced = now;
        }
    }

    /// When to look again if nothing happens: at the next timer, or when a run has not made progress for too long while
    /// others wait for its place.
    pub(super) fn look_again_at(&self, now: Duration) -> Option<Duration> {
        let timer = self.timers.first().map(|timer| timer.0);
        let runs = self.runs.values().filter(|run| !self.queues[run.lane as usize].is_empty() && run.counts(now));
        runs.map(|run| run.advanced + GRACE[run.lane as usize]).chain(timer).min()
    }
}
