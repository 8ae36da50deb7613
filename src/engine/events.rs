//! Passes the events of a store to its listener, one at a time and in their order. Any thread may add one, under any lock:
//! only closing waits for the listener.
//!
//! Invariants:
//! 1. At most one thread delivers: the one that has set `delivering`, or that was started by it. It holds no lock while it
//!    calls the listener, and takes the next event only afterwards.
//! 2. A thread that adds an event while none delivers starts one, which delivers until nothing waits. If the system refuses
//!    a thread, the next event, or closing, tries again.
//! 3. Events that are added under one lock are delivered in the order of that lock. So `Health` adds them under its lock.

use crate::engine::types::events::{Event, EventListener};
use crate::util::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::{self, ThreadId};

/// Events that wait for the listener. What comes on top is left out.
const WAITING_MAX: usize = 4096;

/// See the module. Without a listener it does nothing.
#[derive(Clone, Default)]
pub(crate) struct Events(Option<Arc<Delivery>>);

struct Delivery {
    listener: Arc<dyn EventListener>,
    /// Whether events wait for `deliver_here`.
    is_deterministic: bool,
    queue: Mutex<Queue>,
    /// Signalled when a thread has delivered everything.
    delivered: Condvar,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Event>,
    missed: u64,
    /// The thread that delivers, once it runs.
    delivering: Option<Delivering>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Delivering {
    Starting,
    On(ThreadId),
}

impl Events {
    /// For a listener, if there is one. Deterministic stores have no threads: events wait for `deliver_here`.
    pub(crate) fn new(listener: Option<&Arc<dyn EventListener>>, is_deterministic: bool) -> Self {
        Self(listener.map(|listener| {
            Arc::new(Delivery {
                listener: Arc::clone(listener),
                is_deterministic,
                queue: Mutex::default(),
                delivered: Condvar::new(),
            })
        }))
    }

    /// Adds an event for the listener. It is only made if there is one.
    pub(crate) fn add(&self, event: impl FnOnce() -> Event) {
        let Some(delivery) = &self.0 else { return };
        let mut queue = delivery.queue.lock();
        if queue.waiting.len() < WAITING_MAX {
            queue.waiting.push_back(event());
        } else {
            queue.missed += 1;
        }
        delivery.start(&mut queue);
    }

    /// Delivers what waits, on this thread, in a deterministic store.
    pub(crate) fn deliver_here(&self) {
        if let Some(delivery) = self.0.as_ref().filter(|delivery| delivery.is_deterministic) {
            delivery.deliver();
        }
    }

    /// Waits until everything was delivered. Returns at once on the thread of the listener.
    pub(crate) fn finish(&self) {
        let Some(delivery) = &self.0 else { return };
        if delivery.is_deterministic {
            return delivery.deliver();
        }
        let mut queue = delivery.queue.lock();
        if queue.delivering == Some(Delivering::On(thread::current().id())) {
            return;
        }
        while queue.delivering.is_some() || queue.has_more() {
            delivery.start(&mut queue);
            if queue.delivering.is_none() {
                // The system refuses a thread.
                queue.delivering = Some(Delivering::Starting);
                drop(queue);
                return delivery.deliver();
            }
            delivery.delivered.wait(&mut queue);
        }
    }
}

impl Queue {
    fn has_more(&self) -> bool {
        !self.waiting.is_empty() || self.missed > 0
    }

    /// The next event, with those that were left out last.
    fn next(&mut self) -> Option<Event> {
        let missed = |queue: &mut Self| match std::mem::take(&mut queue.missed) {
            0 => None,
            events => Some(Event::Missed { events }),
        };
        self.waiting.pop_front().or_else(|| missed(self))
    }
}

impl Delivery {
    /// Starts a thread that delivers, unless there is one (invariant 2).
    fn start(self: &Arc<Self>, queue: &mut MutexGuard<'_, Queue>) {
        if self.is_deterministic || queue.delivering.is_some() {
            return;
        }
        let delivery = Arc::clone(self);
        let thread = thread::Builder::new().name("alluvium-events".into()).spawn(move || delivery.deliver());
        queue.delivering = thread.is_ok().then_some(Delivering::Starting);
    }

    /// Delivers until nothing waits.
    fn deliver(&self) {
        let mut queue = self.queue.lock();
        queue.delivering = Some(Delivering::On(thread::current().id()));
        while let Some(event) = queue.next() {
            drop(queue);
            // A panic of the listener ends the call. Its message was printed.
            let _ = catch_unwind(AssertUnwindSafe(|| self.listener.on_event(&event)));
            queue = self.queue.lock();
        }
        queue.delivering = None;
        drop(queue);
        self.delivered.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::util::sync::{AtomicBool, Ordering};
    use std::time::Duration;

    fn stall(ms: u64) -> Event {
        Event::StallEnded { lasted: Duration::from_millis(ms) }
    }

    /// A listener that keeps its events, and events for it. It waits before the first event until it is released.
    fn recorded() -> (Events, Arc<Mutex<Vec<Event>>>, Arc<AtomicBool>) {
        let (seen, released) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let (kept, gate) = (Arc::clone(&seen), Arc::clone(&released));
        let listener: Arc<dyn EventListener> = Arc::new(move |event: &Event| {
            while !gate.load(Ordering::Acquire) {
                thread::yield_now();
            }
            kept.lock().push(event.clone());
            assert_ne!(*event, stall(2), "a listener may panic");
        });
        (Events::new(Some(&listener), false), seen, released)
    }

    #[test]
    fn events_come_once_and_in_order_also_after_a_panic() {
        let (events, seen, released) = recorded();
        (0..5).for_each(|ms| events.add(|| stall(ms)));
        assert!(seen.lock().is_empty(), "adding does not wait for the listener");
        released.store(true, Ordering::Release);
        events.finish();
        assert_eq!(*seen.lock(), (0..5).map(stall).collect::<Vec<_>>());
        events.add(|| stall(9));
        events.finish();
        assert_eq!(seen.lock().len(), 6);
    }

    #[test]
    fn a_slow_listener_learns_how_many_it_missed() {
        let (events, seen, released) = recorded();
        let all = WAITING_MAX as u64 + 100;
        (0..all).for_each(|ms| events.add(|| stall(ms)));
        released.store(true, Ordering::Release);
        events.finish();
        let seen = seen.lock();
        let Some(Event::Missed { events: missed }) = seen.last() else { panic!("{:?}", seen.last()) };
        // One may have been taken out of the queue before it was full.
        assert!((99..=100).contains(missed), "{missed}");
        assert_eq!(seen.len() as u64 - 1 + missed, all);
    }

    #[test]
    fn a_listener_may_finish_itself_and_without_one_nothing_is_made() {
        let slot: Arc<Mutex<Events>> = Arc::default();
        let inner = Arc::clone(&slot);
        let listener: Arc<dyn EventListener> = Arc::new(move |_: &Event| {
            let own = inner.lock().clone();
            own.finish();
        });
        let events = Events::new(Some(&listener), false);
        *slot.lock() = events.clone();
        events.add(|| Event::Stalled);
        events.finish();
        *slot.lock() = Events::default();
        Events::default().add(|| panic!("made without a listener"));
    }
}
