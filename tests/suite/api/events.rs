//! `Options::listener`: which events it gets, and in which order.

use alluvium::internals::DeterministicDb;
use alluvium::storage::simulated::SimulatedStorage;
use alluvium::{BackgroundKind, Db, Error, Event, Options};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

type Seen = Arc<Mutex<Vec<Event>>>;

/// Options with a listener that keeps its events.
fn kept(options: Options) -> (Options, Seen) {
    let seen = Seen::default();
    let events = Arc::clone(&seen);
    (options.listener(move |event: &Event| events.lock().unwrap().push(event.clone())), seen)
}

fn small() -> Options {
    Options::new().memory_budget(1 << 20).sync_interval(None)
}

fn taken(seen: &Seen) -> Vec<Event> {
    std::mem::take(&mut seen.lock().unwrap())
}

/// A short name, without what depends on sizes and times.
fn name(event: &Event) -> String {
    match event {
        Event::Began(task) => format!("began {}", task.kind),
        Event::Ended { task, error: None } => format!("ended {}", task.kind),
        Event::Ended { task, error: Some(_) } => format!("gave up {}", task.kind),
        other => format!("{other:?}").split([' ', '{']).next().unwrap_or_default().to_owned(),
    }
}

fn position(events: &[Event], is_wanted: impl Fn(&Event) -> bool) -> usize {
    let at = events.iter().position(is_wanted);
    at.unwrap_or_else(|| panic!("missing: {:?}", events.iter().map(name).collect::<Vec<_>>()))
}

/// Tasks end in the order in which they began, since these stores run one after the other.
fn expect_pairs(events: &[Event]) {
    let mut running: Option<BackgroundKind> = None;
    for event in events {
        match event {
            Event::Began(task) => assert_eq!(running.replace(task.kind), None, "{event}"),
            Event::Ended { task, .. } => assert_eq!(running.take(), Some(task.kind), "{event}"),
            _ => {}
        }
    }
    assert_eq!(running, None);
}

#[test]
fn a_stall_is_reported_with_its_end_around_the_work_that_ends_it() {
    let disk = SimulatedStorage::new(1);
    let (options, seen) = kept(small());
    let db = DeterministicDb::open(Arc::new(disk), options).unwrap();
    // No background work is done until a put waits for memory.
    let mut number = 0_u32;
    while db.stats().stalled_writes == 0 {
        db.put(number.to_be_bytes(), [7; 1000]).unwrap();
        number += 1;
        assert!(number < 100_000, "no put waits for memory");
    }
    db.close().unwrap();
    let events = taken(&seen);
    expect_pairs(&events);
    let stalled = position(&events, |event| *event == Event::Stalled);
    let over = position(&events, |event| matches!(event, Event::StallEnded { .. }));
    let began =
        position(&events, |event| matches!(event, Event::Began(task) if task.kind == BackgroundKind::Incorporate));
    let ended = position(&events, |event| matches!(event, Event::Ended { error: None, .. }));
    assert!(stalled < began && began < ended && ended < over, "{:?}", events.iter().map(name).collect::<Vec<_>>());
    let Event::Ended { task, .. } = &events[ended] else { unreachable!() };
    assert!(task.bytes_written > 0 && task.bytes_done > 0, "{task:?}");
}

#[test]
fn a_full_disk_is_reported_until_there_is_space() {
    let disk = SimulatedStorage::new(1);
    disk.set_capacity(Some(8 << 20));
    let (options, seen) = kept(small());
    let db = DeterministicDb::open(Arc::new(disk.clone()), options).unwrap();
    let mut number = 0_u32;
    let refused = loop {
        match db.put(number.to_be_bytes(), [number as u8; 1000]) {
            Ok(()) => number += 1,
            Err(error) => break error,
        }
        db.step();
        assert!(number < 100_000, "the disk does not become full");
    };
    assert!(matches!(refused, Error::DiskFull { .. }), "{refused}");
    db.step();
    let events = taken(&seen);
    let full: Vec<_> = events.iter().filter(|event| matches!(event, Event::DiskFull { .. })).collect();
    assert_eq!(full.len(), 1, "{full:?}");
    assert!(!events.contains(&Event::DiskHasSpace));

    disk.set_capacity(Some(64 << 20));
    let accepted = (0..200).any(|_| {
        while db.step() {}
        disk.advance(Duration::from_secs(1));
        db.put("after", "1").is_ok()
    });
    assert!(accepted, "{}", db.stats());
    db.close().unwrap();
    let events = taken(&seen);
    let spaces = events.iter().filter(|event| **event == Event::DiskHasSpace).count();
    let fulls = events.iter().filter(|event| matches!(event, Event::DiskFull { .. })).count();
    assert_eq!((spaces, fulls), (1, 0), "{:?}", events.iter().map(name).collect::<Vec<_>>());
}

#[test]
fn a_failed_sync_is_reported_once() {
    let disk = SimulatedStorage::new(1);
    let (options, seen) = kept(small());
    let db = DeterministicDb::open(Arc::new(disk.clone()), options).unwrap();
    db.put("river", "silt").unwrap();
    disk.inject("(sync,map-sync) -> eio");
    assert!(db.sync().is_err());
    for _ in 0..3 {
        assert!(matches!(db.put("river", "sand"), Err(Error::ReadOnly { .. })));
        let _ = db.sync();
        db.step();
    }
    let _ = db.close();
    let failed: Vec<_> =
        taken(&seen).into_iter().filter(|event| !matches!(event, Event::Began(_) | Event::Ended { .. })).collect();
    let [Event::Failed { reason }] = &failed[..] else { panic!("{failed:?}") };
    assert!(!reason.is_empty(), "{reason}");
}

/// With threads. The listener asks the store for its statistics while the store goes on.
#[test]
fn a_listener_may_call_the_store_and_gets_all_before_it_is_closed() {
    let directory = tempfile::tempdir().unwrap();
    let store: Arc<Mutex<Option<Db>>> = Arc::default();
    let seen = Seen::default();
    let (events, own) = (Arc::clone(&seen), Arc::clone(&store));
    let options = small().listener(move |event: &Event| {
        let db = own.lock().unwrap().clone();
        if let Some(db) = db {
            assert!(db.stats().memory_budget > 0);
        }
        events.lock().unwrap().push(event.clone());
    });
    let db = Db::open(directory.path(), options).unwrap();
    *store.lock().unwrap() = Some(db.clone());
    for number in 0..5_000_u32 {
        db.put(number.to_be_bytes(), [7; 1000]).unwrap();
    }
    db.flush().unwrap();
    *store.lock().unwrap() = None;
    db.close().unwrap();
    let events = taken(&seen);
    let count = |wanted: &str| events.iter().filter(|event| name(event) == wanted).count();
    assert!(count("ended incorporate") >= 5, "{:?}", events.iter().map(name).collect::<Vec<_>>());
    let began = events.iter().filter(|event| matches!(event, Event::Began(_))).count();
    let ended = events.iter().filter(|event| matches!(event, Event::Ended { .. })).count();
    assert_eq!(began, ended, "closing waits for all tasks, and for the listener");
}

#[test]
fn a_listener_may_close_the_store() {
    let directory = tempfile::tempdir().unwrap();
    let store: Arc<OnceLock<Db>> = Arc::default();
    let own = Arc::clone(&store);
    let closed = Arc::new(Mutex::new(None));
    let result = Arc::clone(&closed);
    let options = small().listener(move |event: &Event| {
        if let (Event::Ended { .. }, Some(db)) = (event, own.get()) {
            result.lock().unwrap().get_or_insert_with(|| db.close().map_err(|error| error.to_string()));
        }
    });
    let db = Db::open(directory.path(), options.clone()).unwrap();
    store.set(db.clone()).unwrap();
    db.put("river", "silt").unwrap();
    // Closing by the listener may come before the flush returns.
    let _ = db.flush();
    db.close().unwrap();
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    while closed.lock().unwrap().is_none() {
        assert!(std::time::Instant::now() < deadline, "the listener did not return");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(*closed.lock().unwrap(), Some(Ok(())));
    assert!(matches!(db.put("river", "sand"), Err(Error::Closed)));
}
