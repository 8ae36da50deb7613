//! Stops threads in the middle of their work: a timer interrupts the thread at any instruction, and the signal handler
//! yields the processor or sleeps a little. So a writer stops after it took its number and before it placed its
//! entries, a reader in the middle of a copy, an incorporation before the view changes, without a hook in the store. So
//! a few processors suffice to find races that otherwise need many.

use crate::support::Random;
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once};
use std::time::Duration;

/// The largest number of stalls of one thread in one run, in case something goes wrong.
const STALLS_MAX: u32 = 30;

/// The state of the handler. It has no destructor, so the handler may read it at any moment.
#[derive(Clone, Copy)]
struct State {
    random: u64,
    timer: libc::timer_t,
    /// The longest time from one stall to the next.
    pause_ns: u64,
    left: u32,
}

thread_local! {
    static STATE: Cell<State> =
        const { Cell::new(State { random: 0, timer: std::ptr::null_mut(), pause_ns: 0, left: 0 }) };
}

/// The time between two stalls of a background thread; much longer than a stall, so that the thread makes progress.
const BACKGROUND_NS: u64 = 500_000;

/// How often new background threads are looked for.
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// The stalls of one thread.
pub struct Stalls {
    timer: libc::timer_t,
}

/// The thread ids of the background threads of every store of this process.
pub fn background_threads() -> Vec<libc::pid_t> {
    let named = |task: std::fs::DirEntry| {
        let name = std::fs::read_to_string(task.path().join("comm")).ok()?;
        name.starts_with("alluvium-").then(|| task.file_name().to_str()?.parse().ok())?
    };
    std::fs::read_dir("/proc/self/task").map_or(Vec::new(), |tasks| tasks.flatten().filter_map(named).collect())
}

/// Stalls the background threads that are not among the `others`, until dropped. They are started when they are needed,
/// so a thread looks for new ones. If another test opens a store meanwhile, its threads are stalled, too, which does no
/// harm.
pub fn of_background(others: Vec<libc::pid_t>) -> Background {
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let watch = move || {
        let mut stalled: HashMap<libc::pid_t, Stalls> = HashMap::new();
        while !stopped.load(Ordering::Relaxed) {
            let threads = background_threads();
            stalled.retain(|thread, _| threads.contains(thread));
            for thread in threads {
                if !others.contains(&thread) && !stalled.contains_key(&thread) {
                    let Some(stalls) = Stalls::of_thread(thread) else { continue };
                    set(stalls.timer, 1, BACKGROUND_NS);
                    stalled.insert(thread, stalls);
                }
            }
            std::thread::park_timeout(BETWEEN_LOOKS);
        }
    };
    Background { stop, watcher: Some(std::thread::spawn(watch)) }
}

/// The stalls of background threads.
pub struct Background {
    stop: Arc<AtomicBool>,
    watcher: Option<std::thread::JoinHandle<()>>,
}

impl Drop for Background {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(watcher) = self.watcher.take() {
            watcher.thread().unpark();
            watcher.join().unwrap();
        }
    }
}

fn signal() -> libc::c_int {
    libc::SIGRTMIN() + 5
}

impl Stalls {
    /// For the calling thread; stalls nothing yet.
    pub fn new(seed: u64) -> Self {
        // SAFETY: touches no memory. Short sleeps then take microseconds; by default they take at least fifty.
        let stalls = unsafe {
            libc::prctl(libc::PR_SET_TIMERSLACK, 1000);
            Self::of_thread(libc::gettid()).expect("the calling thread exists")
        };
        STATE.set(State { random: seed, timer: stalls.timer, pause_ns: 0, left: 0 });
        stalls
    }

    /// For a thread; stalls nothing yet. `None` if the thread has ended.
    fn of_thread(thread: libc::pid_t) -> Option<Self> {
        static HANDLER: Once = Once::new();
        HANDLER.call_once(|| {
            // SAFETY: all zeroes is a `sigaction` with an empty mask; the handler calls only what a handler may call.
            let installed = unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = stall as *const () as usize;
                // Interrupted system calls continue.
                action.sa_flags = libc::SA_RESTART;
                libc::sigaction(signal(), &action, std::ptr::null_mut())
            };
            assert_eq!(installed, 0);
        });
        // SAFETY: the event is all zeroes except for the fields set here; it and the place for the timer outlive the
        // call.
        let timer = unsafe {
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = signal();
            event.sigev_notify_thread_id = thread;
            let mut timer: libc::timer_t = std::ptr::null_mut();
            let made = libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut timer);
            if made != 0 {
                let error = std::io::Error::last_os_error();
                assert_eq!(error.raw_os_error(), Some(libc::EINVAL), "{error}");
                return None;
            }
            timer
        };
        Some(Self { timer })
    }

    /// Begins to stall the thread, with at most this time between two stalls.
    pub fn begin(&self, pause_ns: u64) {
        STATE.set(State { pause_ns, left: STALLS_MAX, ..STATE.get() });
        set(self.timer, 1 + pause_ns / 2, 0);
    }

    /// Ends the stalls.
    pub fn stop(&self) {
        STATE.set(State { left: 0, ..STATE.get() });
        set(self.timer, 0, 0);
    }
}

/// Sets the timer: it fires after a time, and then periodically if there is a period. Two zeroes stop it.
fn set(timer: libc::timer_t, after_ns: u64, period_ns: u64) {
    let time = |ns| libc::timespec { tv_sec: 0, tv_nsec: ns as libc::c_long };
    let times = libc::itimerspec { it_value: time(after_ns), it_interval: time(period_ns) };
    // SAFETY: the timer exists as long as its thread's `Stalls`; the times outlive the call.
    unsafe { libc::timer_settime(timer, 0, &times, std::ptr::null_mut()) };
}

impl Drop for Stalls {
    fn drop(&mut self) {
        // SAFETY: made by `timer_create`, and not deleted before.
        unsafe { libc::timer_delete(self.timer) };
    }
}

extern "C" fn stall(_: libc::c_int) {
    let state = STATE.get();
    let mut random = Random(state.random);
    let chosen = random.below(256);
    let pause_ns = 2000 + random.below(state.pause_ns + 1);
    // A background thread has no timer in its state, and none of the other limits.
    let is_background = state.timer.is_null();
    if state.left == 0 && !is_background {
        return;
    }
    STATE.set(State { random: random.0, left: state.left.saturating_sub(1), ..state });
    // SAFETY: these calls are allowed in a handler, and `errno` is restored for the interrupted code.
    unsafe {
        let errno = *libc::__errno_location();
        if chosen < 128 {
            libc::sched_yield();
        } else {
            let time = libc::timespec { tv_sec: 0, tv_nsec: (chosen as libc::c_long - 127) * 1000 };
            libc::nanosleep(&time, std::ptr::null_mut());
        }
        // Set only now: a timer that ran during the stall would leave the thread no time to make progress.
        if !is_background {
            set(state.timer, pause_ns, 0);
        }
        *libc::__errno_location() = errno;
    }
}

/// A regression test: the histories failed if a thread ended after the threads were listed and before the timers were
/// set.
#[test]
fn an_ended_thread_gets_no_timer() {
    // Larger than any thread id.
    assert!(Stalls::of_thread(libc::pid_t::MAX).is_none());
    // SAFETY: touches no memory.
    assert!(Stalls::of_thread(unsafe { libc::gettid() }).is_some());
}
