//! Instructions of the hot parts, counted by callgrind in the calling thread: `cargo bench --bench instructions`. Exact, and
//! the same however busy the machine is; the same cases as in `parts`.
//!
//! A figure is the instructions of one batch: 1,000 operations, so thousands of instructions are instructions an
//! operation; builds are of 60,000. Needs valgrind and gungraun's runner; without them it says so and does nothing.

mod cases;

use std::process::{Command, ExitCode, Stdio};

/// The runner must have the version of the library.
const RUNNER_VERSION: &str = "0.20.0";

mod counted {
    //! What gungraun generates; its `main` starts the runner, which starts this program again under callgrind.

    use crate::cases::{
        BranchBuild, Case, Existing, FilterBuild, FilterProbe, FiltersProbe, Fresh, LARGE, LogAppend, MapletBuild,
        MapletMerge, MapletProbe, MemtableGet, MemtableInsert, Merge, PageSearch, Place, SMALL, SkiplistSearch, Stored,
        Walk, warmed,
    };
    use gungraun::{Callgrind, LibraryBenchmarkConfig, library_benchmark, library_benchmark_group};

    // Gives the case back, so that its end is not counted.
    #[library_benchmark]
    #[bench::skiplist_insert_60_000(warmed(MemtableInsert::new(SMALL)))]
    #[bench::skiplist_insert_600_000(warmed(MemtableInsert::new(LARGE)))]
    #[bench::skiplist_search_60_000(warmed(SkiplistSearch::new(SMALL)))]
    #[bench::skiplist_search_600_000(warmed(SkiplistSearch::new(LARGE)))]
    #[bench::memtable_get_hit_60_000(warmed(MemtableGet::new(SMALL, true)))]
    #[bench::memtable_get_hit_600_000(warmed(MemtableGet::new(LARGE, true)))]
    #[bench::memtable_get_miss_60_000(warmed(MemtableGet::new(SMALL, false)))]
    #[bench::memtable_get_miss_600_000(warmed(MemtableGet::new(LARGE, false)))]
    #[bench::log_append(warmed(LogAppend::new()))]
    #[bench::filter_build_60_000(warmed(FilterBuild::new(SMALL)))]
    #[bench::filter_probe_hit_600_000(warmed(FilterProbe::new(LARGE, true)))]
    #[bench::filter_probe_miss_600_000(warmed(FilterProbe::new(LARGE, false)))]
    #[bench::filter_probes_8_branches(warmed(FiltersProbe::new(8, 1)))]
    #[bench::filter_probes_24_branches(warmed(FiltersProbe::new(24, 1)))]
    #[bench::maplet_probe_8_branches(warmed(MapletProbe::new(8, 1)))]
    #[bench::maplet_probe_24_branches(warmed(MapletProbe::new(24, 1)))]
    #[bench::maplet_build_480_000(warmed(MapletBuild::new()))]
    #[bench::maplet_merge_480_000(warmed(MapletMerge::new()))]
    #[bench::branch_build_60_000(warmed(BranchBuild::new(SMALL)))]
    #[bench::page_search_4_kib(warmed(PageSearch::new()))]
    #[bench::merge_step_2_sources(warmed(Merge::new(2)))]
    #[bench::merge_step_8_sources(warmed(Merge::new(8)))]
    #[bench::put_new_key_60_000(warmed(Fresh::new()))]
    #[bench::put_existing_key_60_000(warmed(Existing::new()))]
    #[bench::get_in_memory_hit_60_000(warmed(Stored::new(Place::Memory, true)))]
    #[bench::get_in_memory_miss_60_000(warmed(Stored::new(Place::Memory, false)))]
    #[bench::get_in_files_hit_600_000(warmed(Stored::new(Place::Files, true)))]
    #[bench::get_in_files_miss_600_000(warmed(Stored::new(Place::Files, false)))]
    #[bench::seek_600_000(warmed(Walk::new(true)))]
    #[bench::next_600_000(warmed(Walk::new(false)))]
    fn batch(mut case: Box<dyn Case>) -> Box<dyn Case> {
        case.run();
        case
    }

    library_benchmark_group!(name = parts, benchmarks = batch);

    // Only instructions are asked for; simulating caches takes twice the time.
    gungraun::main!(
        config = LibraryBenchmarkConfig::default().tool(Callgrind::with_args(["--cache-sim=no"]));
        library_benchmark_groups = parts
    );

    pub fn start() {
        main();
    }
}

/// What is missing to count instructions.
fn missing() -> Option<String> {
    let says = |program: &str| {
        let output = Command::new(program).arg("--version").stderr(Stdio::null()).output().ok()?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    if says("valgrind").is_none() {
        return Some("valgrind is not installed".into());
    }
    let install = format!("cargo install --version {RUNNER_VERSION} gungraun-runner");
    match says(option_env!("GUNGRAUN_RUNNER").unwrap_or("gungraun-runner")) {
        None => Some(format!("gungraun-runner is not installed; get it with: {install}")),
        Some(found) if !found.ends_with(RUNNER_VERSION) => {
            Some(format!("{found} does not fit; get it with: {install}"))
        }
        Some(_) => None,
    }
}

fn main() -> ExitCode {
    // Under callgrind, started by the runner.
    if std::env::args().nth(1).is_some_and(|argument| argument == "--gungraun-run") {
        counted::start();
        return ExitCode::SUCCESS;
    }
    if let Some(what) = missing() {
        println!("instructions: nothing counted: {what}");
        return ExitCode::SUCCESS;
    }
    cases::forget_store();
    cases::make_store();
    counted::start();
    cases::forget_store();
    ExitCode::SUCCESS
}
