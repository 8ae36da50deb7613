//! Kills and power cuts of a mounted file system under load. A process serves the mount; workers change the tree by system
//! calls, each in a directory of its own. Then the process is killed, or the disk below it loses power. Afterwards
//! the checker must find nothing, and each worker's directory must be as after some prefix of its operations: after
//! a kill all that were acknowledged are there, after a power cut at least those before its last fsync.

mod tree;
mod worker;
mod write_back;

use self::tree::{Content, Tree};
use self::worker::{History, work};
use crate::disks::Ext4;
use crate::support::{CALLER, LAYOUTS, Random, open_store, setting, small, with_private_mounts};
use skipfs::check::check;
use skipfs::fuse::{MountOptions, spawn};
use skipfs::store::AlluviumStore;
use skipfs::{FileKind, FsResult, Layout, ROOT, SkipFs, Visit};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const WORKERS: usize = 2;
const STORE: &str = "SKIPFS_STRESS_STORE";
const MOUNT_POINT: &str = "SKIPFS_STRESS_MOUNT_POINT";
const WRITE_BACK: &str = "SKIPFS_STRESS_WRITE_BACK";
const MOUNTED: &str = "the file system is mounted";
/// Longer than any life takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// No test of its own: the process that serves the mount, until it is killed or its parent has died.
#[test]
fn serve() {
    let (Some(store), Some(mount_point)) = (std::env::var_os(STORE), std::env::var_os(MOUNT_POINT)) else { return };
    let fs = SkipFs::open(open_store(Path::new(&store))).unwrap();
    let write_back_cache = std::env::var_os(WRITE_BACK).is_some();
    let options = MountOptions { threads: 2, write_back_cache, ..MountOptions::default() };
    let mounted = spawn(Arc::new(fs), mount_point, &options).unwrap();
    println!("{MOUNTED}");
    // Returns when the parent ends.
    let _ = std::io::stdin().read(&mut [0]);
    drop(mounted);
}

/// How a life ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Kill,
    PowerCut,
}

struct Server {
    child: Child,
}

impl Server {
    fn start(store: &Path, mount_point: &Path, write_back_cache: bool) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["stress::serve", "--exact", "--nocapture"])
            .env(STORE, store)
            .env(MOUNT_POINT, mount_point)
            .envs(write_back_cache.then_some((WRITE_BACK, "1")))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let is_mounted = lines.any(|line| line.unwrap().contains(MOUNTED));
        assert!(is_mounted, "the server ended: {:?}", child.wait());
        Self { child }
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn worker_name(at: usize) -> String {
    format!("worker{at}")
}

/// One life: serves, works, ends. Returns what each worker did.
fn live(place: &Path, disk: &Ext4, trees: Vec<Tree>, end: End, random: &mut Random) -> Vec<History> {
    let (store, mount_point) = (disk.path().join("store"), place.join("mount"));
    let server = Server::start(&store, &mount_point, false);
    let done = AtomicU64::new(0);
    let operations = 10 + random.below(300);
    let seeds: Vec<u64> = trees.iter().map(|_| random.next()).collect();
    let histories = std::thread::scope(|scope| {
        let workers: Vec<_> = trees
            .into_iter()
            .zip(seeds)
            .enumerate()
            .map(|(at, (tree, seed))| {
                let (directory, done) = (mount_point.join(worker_name(at)), &done);
                scope.spawn(move || work(&directory, tree, &mut Random(seed), done, end == End::PowerCut))
            })
            .collect();
        let deadline = Instant::now() + PATIENCE;
        while done.load(Ordering::Relaxed) < operations && !workers.iter().any(|worker| worker.is_finished()) {
            assert!(Instant::now() < deadline, "the workers hang");
            std::thread::sleep(Duration::from_micros(200));
        }
        if end == End::PowerCut {
            disk.cut();
        }
        server.kill();
        workers.into_iter().map(|worker| worker.join().unwrap()).collect()
    });
    nix::mount::umount2(&mount_point, nix::mount::MntFlags::MNT_DETACH).unwrap();
    if end == End::PowerCut {
        disk.remount();
    }
    histories
}

/// The content of a directory, by paths below it.
fn dump(fs: &SkipFs<AlluviumStore>, ino: u64, path: &str, found: &mut BTreeMap<String, Content>) -> FsResult<()> {
    let (mut handle, mut entries, mut offset) = (fs.opendir(ino)?, Vec::new(), 0);
    loop {
        let before = offset;
        fs.readdir(&mut handle, offset, &mut |entry| {
            offset = entry.next_offset;
            if entry.name != b"." && entry.name != b".." {
                entries.push(String::from_utf8(entry.name.to_vec()).unwrap());
            }
            Visit::Taken
        })?;
        if offset == before {
            break;
        }
    }
    for name in entries {
        let child = fs.lookup(ino, name.as_bytes())?;
        let path = if path.is_empty() { name } else { format!("{path}/{name}") };
        let content = match child.kind {
            FileKind::Directory => {
                dump(fs, child.ino, &path, found)?;
                Content::Directory
            }
            FileKind::Symlink => Content::Symlink(String::from_utf8(fs.readlink(child.ino)?).unwrap()),
            _ => Content::File(Arc::new(fs.read(child.ino, 0, child.size as usize)?)),
        };
        found.insert(path, content);
        fs.forget(child.ino, 1);
    }
    Ok(())
}

/// Checks what a life left, and returns the tree of each worker.
fn judge(store: &Path, histories: &[History], context: &str) -> Vec<Tree> {
    let store = open_store(store);
    let before = check(&store).unwrap();
    assert!(before.is_sound(), "{context}: {:#?}", before.findings);
    let fs = SkipFs::open(store).unwrap_or_else(|error| panic!("{context}: {error}"));
    let after = check(fs.store()).unwrap();
    assert!(after.is_sound() && after.orphans.is_empty(), "{context}: {after:#?}");
    let trees = histories.iter().enumerate().map(|(at, history)| {
        let directory = fs.lookup(ROOT, worker_name(at).as_bytes()).unwrap();
        let mut found = BTreeMap::new();
        dump(&fs, directory.ino, "", &mut found).unwrap_or_else(|error| panic!("{context}: {error}"));
        fs.forget(directory.ino, 1);
        history.find(&found).unwrap_or_else(|| {
            let expected = history.acknowledged().dump();
            let differ = |path: &&String| found.get(*path) != expected.get(*path);
            let paths: BTreeSet<_> = found.keys().chain(expected.keys()).filter(differ).collect();
            let count = history.operations.len();
            let last = &history.operations[count.saturating_sub(10)..];
            panic!(
                "{context}, worker {at}: not the tree after any of the last {count} operations; other than after all \
                 acknowledged ones: {paths:?}; the last operations: {last:?}"
            )
        })
    });
    let trees = trees.collect();
    fs.close().unwrap();
    trees
}

fn lives(name: &str, layout: Layout, end: End, count: u64, seed: u64) {
    with_private_mounts(name, || {
        let Some(disk) = Ext4::in_memory(name, 1 << 30) else { return };
        let directory = tempfile::tempdir().unwrap();
        let place: PathBuf = directory.path().to_owned();
        std::fs::create_dir(place.join("mount")).unwrap();
        let store = disk.path().join("store");
        let made = open_store(&store);
        SkipFs::mkfs(&made, &small(layout)).unwrap();
        let fs = SkipFs::open(made).unwrap();
        for at in 0..WORKERS {
            let made = fs.mkdir(ROOT, worker_name(at).as_bytes(), 0o755, CALLER).unwrap();
            fs.forget(made.ino, 1);
        }
        fs.close().unwrap();
        drop(fs);
        let mut random = Random(seed);
        let mut trees = vec![Tree::default(); WORKERS];
        let mut operations = 0;
        for life in 0..count {
            let histories = live(&place, &disk, trees, end, &mut random);
            let context = format!("{layout:?}, {end:?}, seed {seed}, life {life}");
            trees = judge(&store, &histories, &context);
            operations += histories.iter().map(|history| history.count).sum::<u64>();
        }
        println!("{layout:?}: {count} x {end:?}, {operations} operations");
    });
}

/// `SKIPFS_KILLS` kills more often, `SKIPFS_SEED` begins with another seed.
#[test]
fn after_a_kill_everything_acknowledged_is_there() {
    for layout in LAYOUTS {
        lives("kills of a mount", layout, End::Kill, setting("SKIPFS_KILLS", 5), setting("SKIPFS_SEED", 1));
    }
}

/// `SKIPFS_POWER_CUTS` cuts more often.
#[test]
fn after_a_power_cut_everything_before_an_fsync_is_there() {
    for layout in LAYOUTS {
        let count = setting("SKIPFS_POWER_CUTS", 5);
        lives("power cuts of a mount", layout, End::PowerCut, count, setting("SKIPFS_SEED", 1));
    }
}
