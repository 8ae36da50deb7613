//! Tests of a pool with stores that are made up here.

use super::bell::Bell;
use super::dispatch::Dispatch;
use super::lane::{Lane, Next, PoolClient};
use super::worker_pool::WorkerPool;
use super::{Lanes, while_waiting};
use crate::util::sync::{Arc, AtomicU64, AtomicUsize, Condvar, Mutex, Ordering};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);
const SECOND: Duration = Duration::from_secs(1);

fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let started = Instant::now();
    while !done() {
        assert!(started.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A gate that holds whoever passes, until it is opened.
#[derive(Default)]
struct Gate {
    open: Mutex<bool>,
    changed: Condvar,
}

impl Gate {
    fn pass(&self) {
        let mut open = self.open.lock();
        while !*open {
            self.changed.wait(&mut open);
        }
    }

    fn open(&self) {
        *self.open.lock() = true;
        self.changed.notify_all();
    }
}

/// Opens a gate even if the test fails, so that the pool's threads and the memberships can end.
struct Opened<'a>(&'a Gate);

impl Drop for Opened<'_> {
    fn drop(&mut self) {
        self.0.open();
    }
}

/// What a made-up store does in a lane.
type Act = Box<dyn Fn(Lane) -> Next + Send + Sync>;

struct Client {
    act: Act,
    runs: [AtomicUsize; 4],
    progress: AtomicU64,
}

impl Client {
    fn new(act: impl Fn(Lane) -> Next + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { act: Box::new(act), runs: Default::default(), progress: AtomicU64::new(0) })
    }

    fn runs(&self, lane: Lane) -> usize {
        self.runs[lane as usize].load(Ordering::SeqCst)
    }
}

impl PoolClient for Client {
    fn run(&self, lane: Lane) -> Next {
        self.runs[lane as usize].fetch_add(1, Ordering::SeqCst);
        (self.act)(lane)
    }

    fn stays_idle(&self) -> Option<Duration> {
        None
    }

    fn progress(&self) -> u64 {
        self.progress.load(Ordering::SeqCst)
    }
}

fn idle() -> Arc<Client> {
    Client::new(|_| Next::WhenWoken)
}

/// Takes the runs that may begin at a time, and returns their stores.
fn begin_all(dispatch: &mut Dispatch, names: &[&Arc<Client>], now: Duration) -> Vec<(u64, usize, Lane)> {
    let mut begun = Vec::new();
    while let Some(started) = dispatch.next_run(now) {
        let client = Arc::as_ptr(&started.client).cast::<()>();
        let name = names.iter().position(|name| Arc::as_ptr(name).cast::<()>() == client).unwrap();
        begun.push((started.run, name, started.lane));
    }
    begun
}

/// Runs everything that is queued.
fn run_all(dispatch: &mut Dispatch, names: &[&Arc<Client>], now: Duration) {
    loop {
        let begun = begin_all(dispatch, names, now);
        for (run, ..) in &begun {
            dispatch.end(*run, Next::WhenWoken, now);
        }
        if begun.is_empty() {
            return;
        }
    }
}

/// Asks for workers until none begins any more. Returns how many runs of `Work` each store got.
fn work(dispatch: &mut Dispatch, names: &[&Arc<Client>], bells: &[(usize, &Bell)], now: Duration) -> Vec<usize> {
    let mut got = vec![0; names.len()];
    loop {
        for (member, bell) in bells {
            bell.wake(Lane::Work);
            dispatch.answer_bell(*member);
        }
        let begun = begin_all(dispatch, names, now);
        if begun.is_empty() {
            return got;
        }
        begun.iter().filter(|(_, _, lane)| *lane == Lane::Work).for_each(|(_, name, _)| got[*name] += 1);
    }
}

#[test]
fn a_store_leaves_half_of_the_workers_to_others() {
    for workers in 1..=8 {
        let mut dispatch = Dispatch::new(workers);
        let [a, b, c] = [idle(), idle(), idle()];
        let bells = [Arc::new(Bell::default()), Arc::default(), Arc::default()];
        let names = [&a, &b, &c];
        for (member, name) in names.into_iter().enumerate() {
            dispatch.enter(member, name.clone(), Arc::clone(&bells[member]), workers);
        }
        run_all(&mut dispatch, &names, SECOND);
        let (half, alone) = ((workers / 2).max(1), [(0, &*bells[0])]);
        // Alone it gets all of them.
        assert_eq!(work(&mut dispatch, &names, &alone, SECOND), [workers, 0, 0]);
        // What it has above its half does not count against a second one.
        let all = [(0, &*bells[0]), (1, &*bells[1])];
        let got = work(&mut dispatch, &names, &all, SECOND);
        assert_eq!(got, [0, if workers == 1 { 0 } else { workers - half }.min(half), 0], "{workers}");
    }
}

#[test]
fn a_run_without_progress_or_that_waits_makes_way_for_others() {
    let mut dispatch = Dispatch::new(1);
    let [a, b] = [idle(), idle()];
    let bells = [Arc::new(Bell::default()), Arc::default()];
    let names = [&a, &b];
    for (member, name) in names.into_iter().enumerate() {
        dispatch.enter(member, name.clone(), Arc::clone(&bells[member]), 1);
    }
    run_all(&mut dispatch, &names, Duration::ZERO);
    let wake = |dispatch: &mut Dispatch, member: usize| {
        bells[member].wake(Lane::Work);
        dispatch.answer_bell(member);
    };
    wake(&mut dispatch, 0);
    let first = begin_all(&mut dispatch, &names, SECOND);
    assert_eq!(first.len(), 1);
    wake(&mut dispatch, 1);
    // It works: the other one waits, however long that takes.
    let mut now = SECOND;
    for _ in 0..10 {
        assert!(dispatch.next_run(now).is_none());
        a.progress.fetch_add(1, Ordering::SeqCst);
        now = dispatch.look_again_at(now).unwrap();
    }
    assert!(dispatch.next_run(now).is_none());
    // It hangs.
    now = dispatch.look_again_at(now).unwrap();
    let second = begin_all(&mut dispatch, &names, now);
    assert_eq!(second.iter().map(|(_, name, _)| *name).collect::<Vec<_>>(), [1]);
    dispatch.end(second[0].0, Next::WhenWoken, now);
    // It goes on, and then waits for permission.
    dispatch.set_waiting(first[0].0, false, now);
    wake(&mut dispatch, 1);
    assert!(dispatch.next_run(now).is_none());
    dispatch.set_waiting(first[0].0, true, now);
    assert_eq!(begin_all(&mut dispatch, &names, now).len(), 1);
}

#[test]
fn timers_are_due_once_and_end_when_the_lane_runs() {
    let mut dispatch = Dispatch::new(2);
    let (a, bell) = (idle(), Arc::new(Bell::default()));
    dispatch.enter(0, a.clone(), Arc::clone(&bell), 2);
    for (run, _, lane) in begin_all(&mut dispatch, &[&a], SECOND) {
        let next = if lane == Lane::Finish { Next::After(SECOND) } else { Next::WhenWoken };
        dispatch.end(run, next, SECOND);
    }
    assert_eq!(dispatch.look_again_at(SECOND), Some(SECOND * 2));
    bell.wake(Lane::Finish);
    dispatch.answer_bell(0);
    let begun = begin_all(&mut dispatch, &[&a], SECOND);
    assert_eq!((begun.len(), begun[0].2), (1, Lane::Finish));
    assert_eq!(dispatch.look_again_at(SECOND), None);
    dispatch.end(begun[0].0, Next::After(SECOND), SECOND);
    assert!(begin_all(&mut dispatch, &[&a], SECOND).is_empty());
    assert_eq!(begin_all(&mut dispatch, &[&a], SECOND * 2).len(), 1);
    assert!(begin_all(&mut dispatch, &[&a], SECOND * 3).is_empty());
    dispatch.begin_leaving(0);
    assert!(dispatch.is_running(0));
}

/// A run sees everything that happened before its wake-up, and the pool runs everything that is asked for.
#[test]
fn no_wake_up_is_lost() {
    let pool = WorkerPool::new(2);
    let (asked, seen) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (for_run, to) = (Arc::clone(&asked), Arc::clone(&seen));
    let client = Client::new(move |lane| {
        if lane == Lane::Finish {
            to.fetch_max(for_run.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        Next::WhenWoken
    });
    let bell = Arc::new(Bell::default());
    let membership = pool.enter(client, &bell, 2).unwrap();
    for round in 0..200 {
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    asked.fetch_add(1, Ordering::Relaxed);
                    bell.wake(Lane::Finish);
                });
            }
        });
        let all = 3 * (round + 1);
        wait_for("a wake-up was lost", || seen.load(Ordering::Relaxed) == all);
    }
    drop(membership);
}

#[test]
fn a_panic_ends_only_its_run() {
    let pool = WorkerPool::new(2);
    let (bad, good) = (Client::new(|_| panic!("planned")), idle());
    let bells = [Arc::new(Bell::default()), Arc::default()];
    let _bad = pool.enter(bad.clone(), &bells[0], 2).unwrap();
    let _good = pool.enter(good.clone(), &bells[1], 2).unwrap();
    for round in 1..=20 {
        bells[0].wake(Lane::Work);
        wait_for("the bad one", || bad.runs(Lane::Work) >= round);
        let before = good.runs(Lane::Work);
        bells[1].wake(Lane::Work);
        wait_for("the good one", || good.runs(Lane::Work) > before);
    }
}

/// Stores that hang in every lane, more of them than there are places for any lane.
#[test]
fn hung_stores_do_not_stop_another_one() {
    let pool = WorkerPool::new(2);
    let gate = Arc::new(Gate::default());
    let mut memberships = Vec::new();
    {
        let _opened = Opened(&gate);
        for _ in 0..6 {
            let gate = Arc::clone(&gate);
            let hung = Client::new(move |_| {
                gate.pass();
                Next::WhenWoken
            });
            memberships.push(pool.enter(hung, &Arc::default(), 2).unwrap());
        }
        let good = idle();
        let bell = Arc::new(Bell::default());
        let membership = pool.enter(good.clone(), &bell, 2).unwrap();
        for lane in [Lane::MakeReady, Lane::Finish, Lane::Work] {
            for _ in 0..3 {
                let before = good.runs(lane);
                bell.wake(lane);
                wait_for("the lane of the good store", || good.runs(lane) > before);
            }
        }
        // It leaves, although the others still hang.
        drop(membership);
        assert!(pool.threads() <= 64 + 20, "{}", pool.threads());
    }
    drop(memberships);
}

#[test]
fn a_membership_ends_after_the_runs_of_its_store() {
    let pool = WorkerPool::new(2);
    let gate = Arc::new(Gate::default());
    let inside = Arc::new(AtomicUsize::new(0));
    let (for_run, count) = (Arc::clone(&gate), Arc::clone(&inside));
    let client = Client::new(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        for_run.pass();
        count.fetch_sub(1, Ordering::SeqCst);
        Next::Again
    });
    let membership = pool.enter(client.clone(), &Arc::default(), 2).unwrap();
    wait_for("runs", || inside.load(Ordering::SeqCst) >= 3);
    std::thread::scope(|scope| {
        let _opened = Opened(&gate);
        let leaving = scope.spawn(|| drop(membership));
        std::thread::sleep(Duration::from_millis(20));
        assert!(!leaving.is_finished());
        gate.open();
        leaving.join().unwrap();
    });
    assert_eq!(inside.load(Ordering::SeqCst), 0);
    assert_eq!(Arc::strong_count(&client), 1, "the pool still has the store");
}

/// The niceness of the calling thread.
fn niceness() -> i32 {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
    // The 19th word; the second one, in parentheses, may have blanks.
    stat.rsplit_once(')').unwrap().1.split_whitespace().nth(16).unwrap().parse().unwrap()
}

/// On a machine with more runnable threads than processors, a seek waited for merges as long as it ran itself. And a
/// run of the log at the priority of a merge would let writers wait for merges.
#[test]
fn tasks_and_only_tasks_run_at_a_low_priority() {
    let pool = WorkerPool::new(2);
    let of_program = niceness();
    if of_program == 19 {
        return println!("skipped: no priority is lower than that of this process");
    }
    let wrong = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&wrong);
    let client = Client::new(move |lane| {
        let is_low = niceness() > of_program;
        if is_low != matches!(lane, Lane::Work | Lane::Memory) {
            noted.lock().push(lane);
        }
        Next::WhenWoken
    });
    let bell = Arc::new(Bell::default());
    let _membership = pool.enter(client.clone(), &bell, 2).unwrap();
    for round in 1..=50 {
        for lane in [Lane::Work, Lane::Finish, Lane::MakeReady] {
            bell.wake(lane);
            wait_for("the lane", || client.runs(lane) >= round);
        }
    }
    assert_eq!(*wrong.lock(), []);
}

#[test]
fn threads_end_when_they_are_not_needed() {
    let pool = WorkerPool::new(4);
    let gate = Arc::new(Gate::default());
    let for_run = Arc::clone(&gate);
    let client = Client::new(move |_| {
        for_run.pass();
        Next::WhenWoken
    });
    let bell = Arc::new(Bell::default());
    let membership = pool.enter(client.clone(), &bell, 4).unwrap();
    {
        let _opened = Opened(&gate);
        wait_for("three lanes", || pool.threads() >= 4);
    }
    wait_for("all but the leader end", || pool.threads() == 1);
    // A wake-up every now and then does not keep more than it needs.
    for lane in [Lane::Finish, Lane::Work] {
        bell.wake(Lanes::ALL);
        wait_for("a second thread", || pool.threads() > 1);
        let mut wakes = 0;
        wait_for("all but two end", || {
            wakes += 1;
            if wakes % 20 == 0 {
                bell.wake(lane);
            }
            pool.threads() <= 2
        });
    }
    drop(membership);
    wait_for("all threads end", || pool.threads() == 0);
    // The pool can be used again.
    let membership = pool.enter(client, &Arc::default(), 4).unwrap();
    drop(membership);
}

#[test]
fn a_run_that_waits_gives_its_place_to_others() {
    let pool = WorkerPool::new(1);
    let gate = Arc::new(Gate::default());
    let for_run = Arc::clone(&gate);
    let limited = Client::new(move |lane| {
        if lane == Lane::Work {
            while_waiting(|| for_run.pass());
        }
        Next::WhenWoken
    });
    let limited_member = pool.enter(limited.clone(), &Arc::default(), 1).unwrap();
    let opened = Opened(&gate);
    wait_for("the limited store", || limited.runs(Lane::Work) == 1);
    let good = idle();
    let bell = Arc::new(Bell::default());
    let good_member = pool.enter(good.clone(), &bell, 1).unwrap();
    for round in 1..=3 {
        bell.wake(Lane::Work);
        wait_for("the other store", || good.runs(Lane::Work) >= round);
    }
    drop(good_member);
    drop(opened);
    drop(limited_member);
}
