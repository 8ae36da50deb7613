//! The expiry of keyspaces: how old the pairs of each get, when to look at the time again, and what such a *tick* changes. Any
//! thread; ticks one at a time.
//!
//! A tick gives the newest number a date, and looks which numbers are older than a keyspace's pairs may get. What it finds, it
//! writes to the catalog (`format/catalog.rs`). That write's number is the moment from which on readers miss them.

use super::dates::{Date, Dates};
use super::history::{History, Moment};
use crate::merge::Expired;
use crate::util::sync::{Arc, AtomicBool, AtomicU64, Mutex, MutexGuard, Ordering};
use crate::util::{KeyspaceId, SequenceNumber};
use std::collections::BTreeMap;
use std::time::Duration;

/// Between two ticks lies the shortest expiry divided by this.
const PRECISION: u32 = 512;
const SHORTEST: Duration = Duration::from_millis(5);
const LONGEST: Duration = Duration::from_secs(60);
/// Dates are thinned out once in so many ticks.
const TICKS_PER_THINNING: u64 = 64;
const NEVER: u64 = u64::MAX;

/// See the module.
#[derive(Debug)]
pub(crate) struct Expiry {
    history: History,
    /// A keyspace with an expiry may have been written since the last tick.
    is_written: AtomicBool,
    /// Times of the store's clock, nanoseconds: when the next tick is due after a write, and when it is without one.
    due_if_written: AtomicU64,
    due: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// How old the pairs of each keyspace get.
    limits: BTreeMap<KeyspaceId, Duration>,
    dates: Dates,
    /// What has expired, as far as the catalog has it.
    saved: Arc<Expired>,
    /// What has expired for readers.
    seen: Arc<Expired>,
    ticks: u64,
    /// The date of the latest one.
    ticked: Date,
}

/// A tick, which holds the lock of the others. After a plan comes `note_written` or `note_failed`, then `end`.
pub(crate) struct Tick<'a> {
    expiry: &'a Expiry,
    state: MutexGuard<'a, State>,
}

/// What a tick writes.
#[derive(Debug)]
pub(crate) struct TickPlan {
    /// Dates of the catalog: new ones with their numbers, and those that it needs no longer.
    pub(crate) dates: Vec<(Date, Option<SequenceNumber>)>,
    /// The last numbers of keyspaces that have expired since the last tick.
    pub(crate) through: Vec<(KeyspaceId, SequenceNumber)>,
    /// Readers at the write's number miss what has expired by then.
    pub(crate) moment: Option<Arc<Moment>>,
    expired: Arc<Expired>,
    date: Date,
}

impl Default for Expiry {
    fn default() -> Self {
        Self {
            history: History::new(),
            is_written: AtomicBool::new(false),
            due_if_written: AtomicU64::new(NEVER),
            due: AtomicU64::new(NEVER),
            state: Mutex::default(),
        }
    }
}

impl Expiry {
    /// The last number of a keyspace that has expired for readers at `at`. A keyspace without an expiry pays a load and a
    /// comparison.
    #[inline]
    pub(crate) fn through(&self, keyspace: KeyspaceId, at: SequenceNumber) -> SequenceNumber {
        self.history.through(keyspace, at)
    }

    /// The numbers of all readers, which `numbers` returns, and what has expired for all of them.
    pub(crate) fn for_all(&self, numbers: impl FnOnce() -> Vec<SequenceNumber>) -> (Vec<SequenceNumber>, Arc<Expired>) {
        self.history.for_all(numbers)
    }

    /// Sets what the catalog of a store has that is being opened. All readers miss what has expired by this time.
    pub(crate) fn load(
        &self,
        limits: BTreeMap<KeyspaceId, Duration>,
        dates: impl IntoIterator<Item = (Date, SequenceNumber)>,
        through: impl IntoIterator<Item = (KeyspaceId, SequenceNumber)>,
        now: Duration,
    ) {
        let mut state = self.state.lock();
        state.limits = limits;
        state.dates.load(dates);
        state.saved = Arc::new(Expired::new(through));
        // The log may have writes without a date.
        self.is_written.store(!state.limits.is_empty(), Ordering::Release);
        state.seen = Arc::clone(&state.saved);
        state.seen = Arc::new(state.expired(state.date(now)));
        let moment = self.history.prepare(Arc::clone(&state.seen));
        self.begin(&moment, SequenceNumber::ZERO);
        self.history.prune(Vec::new);
        self.due_if_written.store(0, Ordering::Release);
    }

    /// Sets the expiry of a keyspace.
    pub(crate) fn set(&self, keyspace: KeyspaceId, limit: Option<Duration>) {
        let limits = &mut self.state.lock().limits;
        match limit {
            Some(limit) => limits.insert(keyspace, limit),
            None => limits.remove(&keyspace),
        };
        // The next tick chooses the times. What the keyspace has already, if anything, gets the date of that tick.
        self.due_if_written.store(0, Ordering::Release);
        self.is_written.store(true, Ordering::Release);
    }

    /// Whether the pairs of a keyspace expire. Waits for a tick.
    pub(crate) fn has(&self, keyspace: KeyspaceId) -> bool {
        self.state.lock().limits.contains_key(&keyspace)
    }

    /// A moment begins with its number. Neither waits nor allocates.
    pub(crate) fn begin(&self, moment: &Moment, number: SequenceNumber) {
        self.history.begin(moment, number);
    }

    /// Notes that a keyspace with an expiry was written. Returns whether that is news to the workers.
    #[inline]
    pub(crate) fn note_write(&self) -> bool {
        !self.is_written.load(Ordering::Relaxed) && !self.is_written.swap(true, Ordering::AcqRel)
    }

    /// When the next tick is due by the store's clock; `None` if nothing can expire.
    pub(crate) fn due(&self) -> Option<Duration> {
        let due = self.due.load(Ordering::Acquire);
        let written = self.is_written.load(Ordering::Acquire);
        let due = if written { due.min(self.due_if_written.load(Ordering::Acquire)) } else { due };
        (due != NEVER).then(|| Duration::from_nanos(due))
    }

    /// Begins a tick, unless one runs.
    pub(crate) fn begin_tick(&self) -> Option<Tick<'_>> {
        Some(Tick { expiry: self, state: self.state.try_lock()? })
    }
}

impl State {
    /// The date of a time since 1970. A date never goes back. *Otherwise:* the clock is set back and then right again, and what
    /// was written before seems to be older than it is.
    fn date(&self, now: Duration) -> Date {
        millis(now).max(self.dates.last())
    }

    /// What has expired by a date, or had before: what is gone does not come back when a keyspace gets another expiry.
    fn expired(&self, now: Date) -> Expired {
        let mut through: BTreeMap<_, _> = self.seen.through_all().iter().copied().collect();
        for (keyspace, limit) in &self.limits {
            let by_now = now.checked_sub(millis(*limit)).map_or(SequenceNumber::ZERO, |date| self.dates.through(date));
            let through = through.entry(*keyspace).or_default();
            *through = by_now.max(*through);
        }
        Expired::new(through)
    }

    /// The time from `now` until something expires that had not at the date of the latest tick.
    fn next(&self, now: Date) -> Option<Duration> {
        let of_limit = |limit: &Duration| {
            let next = match self.ticked.checked_sub(millis(*limit)) {
                Some(date) => self.dates.after(date),
                None => self.dates.first(),
            };
            next.map(|date| Duration::from_millis(date.saturating_add(millis(*limit)).saturating_sub(now)))
        };
        self.limits.values().filter_map(of_limit).min()
    }
}

impl Tick<'_> {
    /// What the tick writes, if anything. `look` returns the newest number, and then the time since 1970.
    pub(crate) fn plan(&mut self, look: impl FnOnce() -> (SequenceNumber, Duration)) -> Option<TickPlan> {
        let (expiry, state) = (self.expiry, &mut *self.state);
        // Before the number is read. *Otherwise:* a writer takes a later one and notes it in between, and it gets no date.
        let is_written = expiry.is_written.swap(false, Ordering::AcqRel);
        let (last, now) = look();
        let date = state.date(now);
        state.ticked = date;
        if state.limits.is_empty() {
            // What is written now has no age until there is an expiry again.
            state.dates.forget(Date::MAX);
        } else if is_written {
            // What was taken within this millisecond may be younger.
            state.dates.note(last, date + 1);
        }
        state.ticks += 1;
        if state.ticks.is_multiple_of(TICKS_PER_THINNING) {
            state.dates.thin(date);
        }
        let expired = Arc::new(state.expired(date));
        let is_new = |(keyspace, number): &&(KeyspaceId, SequenceNumber)| *number > state.saved.through(*keyspace);
        let through: Vec<_> = expired.through_all().iter().filter(is_new).copied().collect();
        let dates: Vec<_> = state.dates.unsaved().collect();
        if through.is_empty() && dates.is_empty() {
            return None;
        }
        let moment = (!through.is_empty()).then(|| expiry.history.prepare(Arc::clone(&expired)));
        Some(TickPlan { dates, through, moment, expired, date })
    }

    /// What was planned was written. `numbers` returns those of all readers.
    pub(crate) fn note_written(&mut self, plan: &TickPlan, numbers: impl FnOnce() -> Vec<SequenceNumber>) {
        let State { limits, dates, saved, seen, .. } = &mut *self.state;
        dates.note_saved();
        if plan.moment.is_some() {
            (*saved, *seen) = (Arc::clone(&plan.expired), Arc::clone(&plan.expired));
            self.expiry.history.prune(numbers);
            // The catalog has what follows from them. The next tick removes them there.
            if let Some(longest) = limits.values().max() {
                dates.forget(plan.date.saturating_sub(millis(*longest)));
            }
        }
    }

    /// What was planned could not be written. The next tick tries again.
    pub(crate) fn note_failed(&mut self, plan: &TickPlan) {
        if let Some(moment) = &plan.moment {
            self.expiry.history.withdraw(moment);
        }
        self.expiry.is_written.store(true, Ordering::Release);
    }

    /// Ends at this time of the store's clock, with this time since 1970.
    pub(crate) fn end(self, now: Duration, date: Duration) {
        let (expiry, state) = (self.expiry, &*self.state);
        let after = |time: Duration| now.saturating_add(time).as_nanos().try_into().unwrap_or(NEVER - 1);
        let between = state.limits.values().min().map(|shortest| (*shortest / PRECISION).clamp(SHORTEST, LONGEST));
        // The clock may be set, and stands still while the machine sleeps.
        let next = state.next(state.date(date)).map(|next| next.clamp(SHORTEST, LONGEST));
        expiry.due.store(next.map_or(NEVER, after), Ordering::Release);
        expiry.due_if_written.store(between.map_or(NEVER, after), Ordering::Release);
    }
}

/// In whole milliseconds.
fn millis(time: Duration) -> Date {
    u64::try_from(time.as_millis()).unwrap_or(Date::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const USERS: KeyspaceId = KeyspaceId(3);
    const LIMIT: Duration = Duration::from_secs(100);

    fn number(number: u64) -> SequenceNumber {
        SequenceNumber(number)
    }

    /// A tick after `last` was written, whose write has the next number. Returns what it wrote.
    fn tick(expiry: &Expiry, last: u64, seconds: u64) -> Option<(usize, Vec<(KeyspaceId, SequenceNumber)>)> {
        let now = Duration::from_secs(seconds);
        let mut tick = expiry.begin_tick().unwrap();
        let plan = tick.plan(|| (number(last), now));
        if let Some(plan) = &plan {
            plan.moment.iter().for_each(|moment| expiry.begin(moment, number(last + 1)));
            tick.note_written(plan, Vec::new);
        }
        tick.end(now, now);
        plan.map(|plan| (plan.dates.len(), plan.through))
    }

    #[test]
    fn ticks_are_due_while_something_is_written_or_waits() {
        let expiry = Expiry::default();
        let through = |at| expiry.through(USERS, at).0;
        assert_eq!(expiry.due(), None);
        expiry.set(USERS, Some(LIMIT));
        assert_eq!((expiry.due(), expiry.note_write()), (Some(Duration::ZERO), false));
        assert_eq!(tick(&expiry, 10, 1000), Some((1, vec![])));
        // The next date expires at 1100; the clock may be set before that.
        assert_eq!(expiry.due(), Some(Duration::from_secs(1060)));
        assert!(expiry.note_write());
        assert_eq!(expiry.due(), Some(Duration::from_secs(1000) + LIMIT / 512));
        assert_eq!(tick(&expiry, 12, 1001), Some((1, vec![])));
        assert_eq!(tick(&expiry, 13, 1099), None);
        // A date is the end of its millisecond.
        assert_eq!(tick(&expiry, 13, 1100), None);
        assert_eq!(through(SequenceNumber::MAX), 0);
        assert_eq!(tick(&expiry, 13, 1101), Some((0, vec![(USERS, number(10))])));
        assert_eq!([number(13), number(14), SequenceNumber::MAX].map(through), [0, 10, 10]);
        assert_eq!(expiry.due(), Some(Duration::from_secs(1101) + SHORTEST));
        // The first date goes, too.
        assert_eq!(tick(&expiry, 14, 1102), Some((1, vec![(USERS, number(12))])));
        assert_eq!(expiry.due(), None);
    }

    /// A date that passes between a tick's look at the time and its end was once forgotten: nothing was due any more, and the
    /// pairs stayed.
    #[test]
    fn what_expires_during_a_tick_is_due_after_it() {
        let expiry = Expiry::default();
        expiry.set(USERS, Some(LIMIT));
        assert_eq!(tick(&expiry, 10, 1000), Some((1, vec![])));
        let mut slow = expiry.begin_tick().unwrap();
        assert!(slow.plan(|| (number(11), Duration::from_secs(1100))).is_none());
        slow.end(Duration::from_secs(1101), Duration::from_secs(1101));
        assert_eq!(expiry.due(), Some(Duration::from_secs(1101) + SHORTEST));
        assert_eq!(tick(&expiry, 11, 1102), Some((0, vec![(USERS, number(10))])));
    }

    #[test]
    fn what_could_not_be_written_is_tried_again() {
        let expiry = Expiry::default();
        let through = |at| expiry.through(USERS, at).0;
        expiry.set(USERS, Some(LIMIT));
        assert_eq!(tick(&expiry, 10, 1000), Some((1, vec![])));
        let mut failing = expiry.begin_tick().unwrap();
        assert!(expiry.begin_tick().is_none());
        let plan = failing.plan(|| (number(11), Duration::from_secs(1200))).unwrap();
        failing.note_failed(&plan);
        failing.end(Duration::from_secs(1200), Duration::from_secs(1200));
        assert!(through(SequenceNumber::MAX) == 0 && expiry.due().is_some());
        assert_eq!(tick(&expiry, 11, 1201), Some((1, vec![(USERS, number(10))])));
        assert_eq!(through(SequenceNumber::MAX), 10);
    }

    #[test]
    fn an_opened_store_misses_what_has_expired_while_it_was_closed() {
        let expiry = Expiry::default();
        let limits = BTreeMap::from([(USERS, LIMIT), (KeyspaceId(4), LIMIT * 10)]);
        let dates = [(1000, number(5)), (21_000, number(9)), (50_000, number(12))];
        expiry.load(limits, dates, [(USERS, number(7))], Duration::from_secs(122));
        let through = |keyspace, at| expiry.through(KeyspaceId(keyspace), number(at)).0;
        assert_eq!((through(3, 0), through(3, u64::MAX), through(4, u64::MAX)), (9, 9, 0));
        assert_eq!(expiry.due(), Some(Duration::ZERO));
        // Readers miss it, so no other option and no other clock brings it back.
        expiry.set(USERS, None);
        assert_eq!(tick(&expiry, 30, 30), Some((1, vec![(USERS, number(9))])));
        assert_eq!((through(3, u64::MAX), through(4, u64::MAX)), (9, 0));
        // The clock has been set back: dates go on from where they were.
        assert_eq!(tick(&expiry, 31, 31), None);
        // Without any expiry there are no dates.
        expiry.set(KeyspaceId(4), None);
        assert_eq!(tick(&expiry, 40, 200).map(|(dates, _)| dates), Some(4));
        assert_eq!((expiry.due(), through(3, u64::MAX)), (None, 9));
    }
}
