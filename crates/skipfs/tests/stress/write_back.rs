//! Kills and power cuts with the kernel's write-back cache. The kernel passes on what it has collected in an order of its
//! own, so no prefix of the operations is to be expected. What an fsync of a file had acknowledged must be there, and
//! behind it nothing but what was written, or zeros where it was lost.

use super::{End, PATIENCE, Server};
use crate::disks::Ext4;
use crate::support::{LAYOUTS, Random, open_store, setting, small, with_private_mounts};
use skipfs::check::check;
use skipfs::{ROOT, SkipFs};
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

const WORKERS: u64 = 2;
/// Files of a worker.
const FILES: u64 = 4;

/// The byte of a file at an offset; never zero.
fn byte(file: u64, offset: usize) -> u8 {
    (offset / 3 + file as usize * 31) as u8 | 1
}

/// A file to which a worker appends.
#[derive(Default)]
struct Appended {
    name: String,
    number: u64,
    /// Bytes that were passed to the kernel, the last ones perhaps in vain.
    written: usize,
    /// Bytes that an fsync has acknowledged.
    durable: usize,
}

impl Appended {
    fn append(&mut self, mount_point: &Path, random: &mut Random) -> std::io::Result<()> {
        let mut file = OpenOptions::new().create(true).append(true).open(mount_point.join(&self.name))?;
        let end = self.written + 1 + random.below(100_000) as usize;
        let bytes: Vec<u8> = (self.written..end).map(|at| byte(self.number, at)).collect();
        self.written = end;
        file.write_all(&bytes)?;
        if random.one_in(4) {
            file.sync_data()?;
            self.durable = end;
        }
        Ok(())
    }

    fn judge(&self, content: Option<&[u8]>, context: &str) {
        let found = content.unwrap_or_default();
        let Self { name, number, written, durable } = self;
        assert!(
            (*durable..=*written).contains(&found.len()),
            "{context}, {name}: {} bytes, {durable} were durable and {written} written",
            found.len()
        );
        let differs = |(at, found): (usize, &u8)| {
            let is_lost = at >= *durable && *found == 0;
            !is_lost && *found != byte(*number, at)
        };
        let wrong = found.iter().enumerate().position(differs);
        assert!(wrong.is_none(), "{context}, {name}: byte {wrong:?} differs, {durable} were durable");
    }
}

fn live(disk: &Ext4, mount_point: &Path, life: u64, end: End, random: &mut Random) -> Vec<Appended> {
    let server = Server::start(&disk.path().join("store"), mount_point, true);
    let (done, operations) = (AtomicU64::new(0), 10 + random.below(100));
    let seeds = [(); WORKERS as usize].map(|()| random.next());
    let appended = std::thread::scope(|scope| {
        let work = |worker: u64, seed: u64| {
            let mut random = Random(seed);
            let name = |number: u64| format!("{life}-{worker}-{number}");
            let new = |number: u64| Appended { name: name(number), number, ..Appended::default() };
            let mut files: Vec<Appended> = (0..FILES).map(new).collect();
            while files[random.below(FILES) as usize].append(mount_point, &mut random).is_ok() {
                done.fetch_add(1, Ordering::Relaxed);
            }
            files
        };
        let workers = seeds.iter().zip(0..).map(|(seed, worker)| scope.spawn(move || work(worker, *seed)));
        let workers: Vec<_> = workers.collect();
        let deadline = Instant::now() + PATIENCE;
        while done.load(Ordering::Relaxed) < operations && !workers.iter().any(|worker| worker.is_finished()) {
            assert!(Instant::now() < deadline, "the workers hang");
            std::thread::yield_now();
        }
        if end == End::PowerCut {
            disk.cut();
        }
        server.kill();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    nix::mount::umount2(mount_point, nix::mount::MntFlags::MNT_DETACH).unwrap();
    if end == End::PowerCut {
        disk.remount();
    }
    appended
}

/// `SKIPFS_KILLS` ends more lives, `SKIPFS_SEED` begins with another seed.
#[test]
fn with_the_write_back_cache_everything_fsynced_is_there() {
    for (layout, end) in LAYOUTS.into_iter().flat_map(|layout| [(layout, End::Kill), (layout, End::PowerCut)]) {
        with_private_mounts("kills with the write-back cache", || {
            let Some(disk) = Ext4::in_memory("kills with the write-back cache", 1 << 30) else { return };
            let mount_point = tempfile::tempdir().unwrap();
            let store = disk.path().join("store");
            let made = open_store(&store);
            SkipFs::mkfs(&made, &small(layout)).unwrap();
            SkipFs::open(made).unwrap().close().unwrap();
            let seed = setting("SKIPFS_SEED", 1);
            let mut random = Random(seed);
            for life in 0..setting("SKIPFS_KILLS", 3) {
                let context = format!("{layout:?}, {end:?}, seed {seed}, life {life}");
                let appended = live(&disk, mount_point.path(), life, end, &mut random);
                let fs = SkipFs::open(open_store(&store)).unwrap_or_else(|error| panic!("{context}: {error}"));
                let report = check(fs.store()).unwrap();
                assert!(report.is_sound(), "{context}: {report:#?}");
                for file in appended {
                    let found = fs.lookup(ROOT, file.name.as_bytes()).ok();
                    let read = found.map(|found| fs.read(found.ino, 0, found.size as usize).unwrap());
                    file.judge(read.as_deref(), &context);
                }
                fs.close().unwrap();
            }
        });
    }
}
