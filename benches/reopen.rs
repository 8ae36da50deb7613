//! How long a store takes to open after its process was killed, and how much memory that takes.
//!
//! A child process writes and is killed after everything was acknowledged. Further children open copies of what it
//! left, one after the other, print their figures and exit without closing.
//!
//! `cargo bench --bench reopen -- [--num N] [--value BYTES] [--fill log|put|branches] [--writers W] [--memory-kib KIB]
//! [--cold yes|no] [--runs R] [--dir DIR]`
//!
//! With `--fill put` the child uses the store normally; what it has incorporated by the time of the kill is no longer
//! in the log. With `--fill log` every record stays in the log: records are written to the log only. No options of a
//! store cause that, since writers wait once three Memtables are full. `--writers` of them alternate, each in its own
//! chunks. With `--fill branches` there are `--num` branch files of a few pages each when it is killed. `--memory-kib
//! 0` leaves the budget at its default. `--cold yes` drops the page cache before each opening (as root).

use alluvium::internals::DeterministicDb;
use alluvium::storage::PosixStorage;
use alluvium::{Db, Options};
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

struct Settings {
    arguments: Vec<String>,
    num: u64,
    value: usize,
    fill: String,
    writers: u64,
    memory_kib: u64,
    cold: bool,
    runs: u64,
    directory: Option<String>,
    child: String,
}

fn settings() -> Settings {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let mut settings = Settings {
        arguments: arguments.clone(),
        num: 2_000_000,
        value: 100,
        fill: "log".into(),
        writers: 1,
        memory_kib: 0,
        cold: false,
        runs: 5,
        directory: None,
        child: String::new(),
    };
    for pair in arguments.chunks(2) {
        match pair {
            [name, value] if name == "--num" => settings.num = value.parse().expect("a number"),
            [name, value] if name == "--value" => settings.value = value.parse().expect("a number of bytes"),
            [name, value] if name == "--fill" => settings.fill = value.clone(),
            [name, value] if name == "--writers" => settings.writers = value.parse().expect("a number"),
            [name, value] if name == "--memory-kib" => settings.memory_kib = value.parse().expect("a number of KiB"),
            [name, value] if name == "--cold" => settings.cold = value == "yes",
            [name, value] if name == "--runs" => settings.runs = value.parse().expect("a number"),
            [name, value] if name == "--dir" => settings.directory = Some(value.clone()),
            [name, value] if name == "--child" => settings.child = value.clone(),
            other => panic!("unknown arguments {other:?}"),
        }
    }
    settings
}

impl Settings {
    fn options(&self) -> Options {
        Options::new().memory_budget((self.memory_kib > 0).then_some(self.memory_kib << 10))
    }

    /// This program again, in another role, with its output piped.
    fn child(&self, role: &str, store: &Path) -> Child {
        Command::new(std::env::current_exe().expect("the name of this program"))
            .args(&self.arguments)
            .args(["--child", role, "--dir"])
            .arg(store)
            .stdout(Stdio::piped())
            .spawn()
            .expect("a child process")
    }
}

/// A bijection on 64-bit numbers (the finalizer of SplitMix64): random keys without repetition.
fn scramble(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn status_mib(name: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with(name)).unwrap_or("");
    line.split_whitespace().nth(1).and_then(|number| number.parse::<u64>().ok()).unwrap_or(0) >> 10
}

/// User and system time of the process so far, in seconds.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}

/// The child that writes, and then waits to be killed.
fn fill(settings: &Settings, store: &Path) {
    let value = vec![7; settings.value];
    let key = |number: u64| scramble(number).to_be_bytes();
    if settings.fill == "put" {
        let db = Db::open(store, settings.options()).expect("an open store");
        (0..settings.num).for_each(|number| db.put(key(number), &value).expect("a put"));
        wait_for_the_end(db);
    } else if settings.fill == "branches" {
        let db =
            DeterministicDb::open_small(Arc::new(PosixStorage::new(store)), settings.options()).expect("an open store");
        let mut number = 0;
        while db.stats().branch_files < settings.num {
            for _ in 0..100 {
                db.put(key(number), &value).expect("a put");
                number += 1;
            }
            while db.step() {}
        }
        println!("{}", db.stats());
        wait_for_the_end(db);
    } else {
        let db = DeterministicDb::open(Arc::new(PosixStorage::new(store)), settings.options()).expect("an open store");
        let mut writers: Vec<_> = (0..settings.writers).map(|_| db.log_writer()).collect();
        for number in 0..settings.num {
            // Turns of varying length, as threads take them.
            let writer = (scramble(number / 3) % settings.writers) as usize;
            writers[writer].put(&key(number), &value).expect("a record");
        }
        db.sync().expect("a sync");
        wait_for_the_end((db, writers));
    }
}

fn wait_for_the_end<T>(_kept: T) {
    println!("written");
    std::io::stdout().flush().expect("a pipe");
    // Bounded, in case the parent dies.
    std::thread::sleep(Duration::from_secs(60));
}

/// The child that opens: seconds until `Db::open` returns and until the first get returns, processor time, peak memory.
fn open(settings: &Settings, store: &Path) {
    let (started, cpu) = (Instant::now(), cpu_seconds());
    let db = Db::open(store, settings.options()).expect("an open store");
    let (opened, opening_cpu, peak) = (started.elapsed(), cpu_seconds() - cpu, status_mib("VmHWM"));
    let key = |number: u64| scramble(number).to_be_bytes();
    assert_eq!(db.get(key(settings.num - 1)).expect("a get").map(|value| value.len()), Some(settings.value));
    let got = started.elapsed();
    let stats = db.stats();
    println!(
        "opened in {:.3} s (first get after {:.3} s), {:.2} s of CPU, peak {peak} MiB; {} entries in {} generations, log {} MiB, {} branch files",
        opened.as_secs_f64(),
        got.as_secs_f64(),
        opening_cpu,
        stats.memory_entries,
        stats.generations,
        stats.log_bytes >> 20,
        stats.branch_files,
    );
    for number in (0..settings.num).step_by(997) {
        assert!(db.get(key(number)).expect("a get").is_some(), "key {number} is missing");
    }
    // Not closed: the next run copies the original again.
    std::process::exit(0);
}

fn copy(from: &Path, to: &Path) {
    let _ = std::fs::remove_dir_all(to);
    std::fs::create_dir(to).expect("a directory");
    for entry in std::fs::read_dir(from).expect("a store's directory") {
        let entry = entry.expect("a file");
        std::fs::copy(entry.path(), to.join(entry.file_name())).expect("a copy");
        std::fs::File::open(to.join(entry.file_name())).expect("the copy").sync_all().expect("a sync");
    }
}

fn main() {
    let settings = settings();
    match (&settings.child[..], &settings.directory) {
        ("fill", Some(store)) => return fill(&settings, Path::new(store)),
        ("open", Some(store)) => return open(&settings, Path::new(store)),
        _ => {}
    }
    let temporary = tempfile::tempdir().expect("a temporary directory");
    let directory = settings.directory.as_ref().map_or(temporary.path().to_path_buf(), |directory| directory.into());
    let (original, copied) = (directory.join("original"), directory.join("copy"));
    let mut child = settings.child("fill", &original);
    let mut word = [0; 7];
    child.stdout.take().expect("a pipe").read_exact(&mut word).expect("the child's word");
    child.kill().expect("a dead child");
    child.wait().expect("a dead child");
    println!("{} puts of 8 + {} bytes, fill {}", settings.num, settings.value, settings.fill);
    for _ in 0..settings.runs {
        copy(&original, &copied);
        if settings.cold {
            std::fs::write("/proc/sys/vm/drop_caches", "1").expect("only root drops the page cache");
        }
        let output = settings.child("open", &copied).wait_with_output().expect("the child's figures");
        assert!(output.status.success(), "the child failed");
        print!("{}", String::from_utf8_lossy(&output.stdout));
    }
}
