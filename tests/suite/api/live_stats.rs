//! The statistics that a writer publishes for other processes (`Db::live_stats`): a child process merges slowly while
//! this one watches.

use crate::support::child;
use crate::support::tiny;
use alluvium::{BackgroundTask, Db, LiveStats, Options};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

const CHILD: &str = "ALLUVIUM_LIVE_STATS_CHILD";
const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes a second, so low that the merge of everything takes longer than the test.
const LIMIT: u64 = 50 << 10;
const KEYS: u32 = 10_000;

fn live(path: &Path) -> Option<LiveStats> {
    Db::live_stats(path).unwrap()
}

fn wait_for<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(started.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The child writes two runs of everything and then merges them slowly until it is killed.
pub fn child() {
    let directory = std::env::var_os(CHILD).unwrap();
    let options = Options::new().memory_budget(8 << 20).background_threads(2);
    let db = Db::open(directory, options).unwrap();
    for round in 0..2u8 {
        (0..KEYS).for_each(|at| db.put(format!("{:06}", at * 7919 % KEYS), [round; 100]).unwrap());
        db.flush().unwrap();
    }
    db.settle().unwrap();
    (0..KEYS).step_by(3).for_each(|at| db.delete(format!("{at:06}")).unwrap());
    db.flush().unwrap();
    db.set_background_write_limit(Some(LIMIT)).unwrap();
    db.compact().unwrap();
}

/// Kills the child even if the test fails.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn live_statistics_show_a_merge_until_its_process_dies() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    Db::open(&path, Options::default()).unwrap().close().unwrap();
    let mut child = child::command("slow merge");
    child.env(CHILD, &path).stdout(Stdio::null()).stderr(Stdio::inherit());
    let mut child = Ended(child.spawn().unwrap());
    let merge = |live: LiveStats| -> Option<(LiveStats, BackgroundTask)> {
        let is_slow = live.stats.background_write_limit == Some(LIMIT);
        let advances = |task: &&BackgroundTask| is_slow && task.bytes_total > 0 && task.bytes_written > 0;
        let task = live.stats.running.iter().find(advances).cloned();
        task.map(|task| (live, task))
    };
    let (first, begun) = wait_for("no merge has written anything", || merge(live(&path)?));
    assert_eq!(first.process, child.0.id());
    assert!(first.age < PATIENCE && first.stats.writes > 2 * u64::from(KEYS), "{first:?}");
    assert!(!first.stats.levels.is_empty() && first.stats.branch_files > 0, "{first:?}");
    assert!(begun.bytes_done <= begun.bytes_total, "{begun}");
    let compacted = |live: &LiveStats| {
        let running: u64 = live.stats.running.iter().map(|task| task.bytes_written).sum();
        live.stats.compacted_bytes + running
    };
    wait_for("the merge makes no progress", || live(&path).filter(|live| compacted(live) > compacted(&first)));
    child.0.kill().unwrap();
    child.0.wait().unwrap();
    assert!(path.join("STATS").exists());
    assert_eq!(live(&path), None, "statistics of a dead process are not live");
    let db = Db::open(&path, tiny()).unwrap();
    assert_eq!(live(&path), None, "the next opener removes the statistics");
    db.close().unwrap();
    assert!(!path.join("STATS").exists());
}

#[test]
fn a_writer_publishes_statistics_until_it_closes() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), tiny()).unwrap();
    let published = wait_for("no statistics are published", || live(directory.path()));
    assert_eq!((published.process, published.stats.writes), (std::process::id(), 0));
    db.put("key", "value").unwrap();
    let pause = db.pause_background();
    let published =
        wait_for("the put is not shown", || live(directory.path()).filter(|published| published.stats.writes == 1));
    assert!(published.stats.background_paused && published.stats.memory_entries == 1, "{published:?}");
    drop(pause);
    // A second opener in this process sees the statistics as another process does, and does not remove the file.
    let reader = alluvium::ReadOnlyDb::open(directory.path(), tiny()).unwrap();
    assert_eq!(reader.get("key").unwrap().as_deref(), Some(&b"value"[..]));
    drop(reader);
    db.close().unwrap();
    assert!(!directory.path().join("STATS").exists());
    assert_eq!(live(directory.path()), None);
}
