//! C programs compiled with this library's header and with LevelDB's, linked to the shared and to the static library,
//! with and without valgrind.

use crate::install::{Program, Whose, compile, has, has_leveldb, prefix, text};
use std::ffi::OsStr;
use std::process::Output;
use tempfile::tempdir;

const SUITE: &str = "tests/c/suite.c";
const MISUSE: &str = "tests/c/misuse.c";
/// Number of pairs that the suite puts under valgrind, which takes thirty times as long.
const FEW: &str = "500";

fn run_suite(program: &Program, whose: Whose) {
    let folder = tempdir().unwrap();
    let output = program.run(whose, &[folder.path().join("db")]);
    assert_eq!(text(&output), "suite: passed\n");
}

#[test]
fn the_suite_passes() {
    if has("cc") {
        run_suite(&compile(SUITE, Whose::Ours, &[]), Whose::Ours);
    }
}

/// The suite tests what LevelDB does: the same binary passes with LevelDB and with this library.
#[test]
fn the_suite_of_leveldbs_header_passes_with_both_libraries() {
    if has("cc") && has_leveldb() {
        let program = compile(SUITE, Whose::LevelDb, &[]);
        run_suite(&program, Whose::LevelDb);
        run_suite(&program, Whose::Ours);
    }
}

#[test]
fn the_static_library_links() {
    if !has("cc") {
        return;
    }
    // The flags of `leveldb.pc` for static linking.
    let library = prefix().join("lib/libleveldb.a");
    let also = [library.to_str().unwrap(), "-lgcc_s", "-lutil", "-lrt", "-lm", "-ldl", "-Wl,--as-needed"];
    let program = compile(SUITE, Whose::Ours, &also);
    // Without this shared library in the search path.
    run_suite(&program, Whose::LevelDb);
}

#[test]
fn the_suite_passes_under_valgrind() {
    if has("cc") && has("valgrind") {
        let folder = tempdir().unwrap();
        let output =
            compile(SUITE, Whose::Ours, &[]).run_checked(&[folder.path().join("db").as_os_str(), FEW.as_ref()]);
        assert_eq!(text(&output), "suite: passed\n");
    }
}

#[test]
fn calls_from_destructors_and_at_exit() {
    if !has("cc") {
        return;
    }
    let libraries: &[Whose] = if has_leveldb() { &[Whose::LevelDb, Whose::Ours] } else { &[Whose::Ours] };
    let program = compile("tests/c/endings.c", libraries[0], &[]);
    for whose in libraries {
        let folder = tempdir().unwrap();
        assert_eq!(text(&program.run(*whose, &[folder.path().join("db")])), "endings: passed\n", "{whose:?}");
    }
}

const OPENED: &str = "tests/c/opened.c";

/// LevelDB itself, loaded in place of this library, once mistook a store for an empty directory and removed its log.
#[test]
fn leveldb_and_this_library_do_not_open_each_others_databases() {
    if !has("cc") || !has_leveldb() {
        return;
    }
    let (program, folder) = (compile(OPENED, Whose::LevelDb, &[]), tempdir().unwrap());
    let run = |whose, directory: &str| text(&program.run(whose, &[folder.path().join(directory)]));
    for whose in [Whose::Ours, Whose::LevelDb] {
        let other = if whose == Whose::Ours { Whose::LevelDb } else { Whose::Ours };
        let (directory, says) = match whose {
            Whose::Ours => ("ours", "a store of Alluvium, not a database of LevelDB"),
            Whose::LevelDb => ("leveldb", "holds a database of LevelDB itself"),
        };
        assert_eq!(run(whose, directory), "0 pairs\n");
        for _ in 0..2 {
            let error = run(other, directory);
            assert!(error.contains(says), "{error}");
        }
        assert_eq!(run(whose, directory), "1 pairs\n");
    }
    let missing = run(Whose::Ours, "no/such/place");
    assert!(missing.starts_with("NotFound: ") && !folder.path().join("no").exists(), "{missing}");
}

/// Opening a database a second time once left Rust's data about the caller's thread behind, which valgrind reports as
/// possibly lost.
#[test]
fn a_database_can_be_opened_again_under_valgrind() {
    if !has("cc") || !has("valgrind") {
        return;
    }
    let (program, folder) = (compile(OPENED, Whose::Ours, &[]), tempdir().unwrap());
    for pairs in 0..3 {
        let output = program.run_checked(&[folder.path().join("db")]);
        assert_eq!(text(&output), format!("{pairs} pairs\n"));
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!stderr.contains("init_current"), "{stderr}");
    }
}

fn expect_reports(output: &Output) {
    assert_eq!(text(output), "misuse: passed\n");
    let stderr = String::from_utf8_lossy(&output.stderr);
    for what in [
        "alluvium: leveldb_close: 2 iterators and 1 snapshots of the database are still alive",
        "alluvium: leveldb_close: the leveldb_t was already closed",
        "alluvium: leveldb_iter_destroy: the leveldb_iterator_t was already destroyed",
        "alluvium: leveldb_create_iterator: the leveldb_t was already closed",
        "alluvium: leveldb_close: the pointer is not a leveldb_t of this library",
        "alluvium: leveldb_put: the key is NULL",
        "alluvium: leveldb_put: errptr is NULL; the error is: Invalid argument: leveldb_put: leveldb_t is NULL",
        "alluvium: leveldb_iter_next: the iterator is not positioned on an entry",
        "alluvium: leveldb_writebatch_delete: the leveldb_writebatch_t is in use",
        "alluvium: leveldb_approximate_sizes: the number of ranges is -1",
    ] {
        assert!(stderr.contains(what), "not reported: {what}\n{stderr}");
    }
}

#[test]
fn misuse_is_reported() {
    if has("cc") {
        let folder = tempdir().unwrap();
        expect_reports(&compile(MISUSE, Whose::Ours, &[]).run(Whose::Ours, &[folder.path().join("db")]));
    }
}

#[test]
fn misuse_is_reported_under_valgrind() {
    if has("cc") && has("valgrind") {
        let folder = tempdir().unwrap();
        expect_reports(&compile(MISUSE, Whose::Ours, &[]).run_checked(&[folder.path().join("db")]));
    }
}

/// Runs `chaos.c` with these arguments after the directory, and checks its output.
fn chaos(run: impl Fn(&[&OsStr]) -> Output, seed: u64, calls: u32, threads: u32) {
    let folder = tempdir().unwrap();
    let (seed, calls, threads) = (seed.to_string(), calls.to_string(), threads.to_string());
    let output = run(&[folder.path().join("db").as_os_str(), seed.as_ref(), calls.as_ref(), threads.as_ref()]);
    let words = text(&output);
    assert!(words.starts_with("chaos: "), "seed {seed}, {threads} threads: {words}");
}

#[test]
fn random_calls_with_random_pointers_do_no_harm() {
    if !has("cc") {
        return;
    }
    let program = compile("tests/c/chaos.c", Whose::Ours, &[]);
    for seed in 0..3 {
        for threads in [1, 4] {
            chaos(|arguments| program.run(Whose::Ours, arguments), seed, 20_000, threads);
        }
    }
    if has("valgrind") {
        // Leaks are ignored: an object that is in use is not destroyed, and the program has lost its pointer.
        chaos(|arguments| program.run_checked_for_accesses(arguments), 3, 3000, 3);
    }
}

/// A standard error that cannot be written to must not end the program.
#[test]
fn misuse_with_a_full_standard_error_does_no_harm() {
    if !has("cc") {
        return;
    }
    let (program, folder) = (compile(MISUSE, Whose::Ours, &[]), tempdir().unwrap());
    let run = std::process::Command::new(program.path())
        .arg(folder.path().join("db"))
        .env("LD_LIBRARY_PATH", prefix().join("lib"))
        .stderr(std::fs::File::options().write(true).open("/dev/full").unwrap())
        .output()
        .unwrap();
    assert_eq!(text(&run), "misuse: passed\n");
}

#[test]
fn misuse_aborts_on_request() {
    use std::os::unix::process::ExitStatusExt;
    if !has("cc") {
        return;
    }
    let (program, folder) = (compile(MISUSE, Whose::Ours, &[]), tempdir().unwrap());
    let run = std::process::Command::new(program.path())
        .arg(folder.path().join("db"))
        .env("LD_LIBRARY_PATH", prefix().join("lib"))
        .env("ALLUVIUM_MISUSE", "abort")
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&run.stderr);
    assert_eq!(run.status.signal(), Some(6), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "the program must abort at the first misuse: {stderr}");
}

#[test]
fn the_example_runs() {
    if !has("cc") {
        return;
    }
    let folder = tempdir().unwrap();
    let output = compile("example/notes.c", Whose::Ours, &[]).run(Whose::Ours, &[folder.path().join("notes")]);
    let expected =
        "river/danube: not found\nriver/danube: Black Sea\n  river/elbe = North Sea\n  river/rhine = North Sea\n";
    assert_eq!(text(&output), expected);
}

/// An invalid number in the environment is an error.
#[test]
fn the_environment_sets_the_memory_budget() {
    if !has("cc") {
        return;
    }
    let (program, folder) = (compile("example/notes.c", Whose::Ours, &[]), tempdir().unwrap());
    let run = |memory: &str| {
        let mut command = std::process::Command::new(program.path());
        command.arg(folder.path().join("db")).env("LD_LIBRARY_PATH", prefix().join("lib"));
        command.env("ALLUVIUM_MEMORY", memory).output().unwrap()
    };
    let failed = run("much");
    let stderr = String::from_utf8_lossy(&failed.stderr);
    assert_eq!(failed.status.code(), Some(1));
    assert!(stderr.contains("Invalid argument: the environment variable ALLUVIUM_MEMORY is \"much\""), "{stderr}");
    text(&run("64M"));
}
