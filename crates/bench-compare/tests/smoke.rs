//! The program as a user runs it, with Alluvium alone and few keys: results, page, resumption, errors.

use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

fn run(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_bench-compare"))
        .args(arguments)
        .current_dir(folder)
        .env("TMPDIR", folder)
        .env_remove("SPLINTERDB_LIB")
        .output()
        .unwrap()
}

/// A quick run of a thousand keys.
fn quick(folder: &Path, more: &[&str]) -> Output {
    let all = ["quick", "--engines", "alluvium", "--num", "1000", "--no-limit", "--check"];
    run(folder, &[&all, more].concat())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn records(folder: &Path) -> Vec<Value> {
    let files = fs::read_dir(folder.join("results")).unwrap().map(|entry| entry.unwrap().path());
    let json = files.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
    json.flat_map(|path| {
        let file: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
        file["records"].as_array().unwrap().clone()
    })
    .collect()
}

/// A repository with one commit, so that results have a source whose state is known.
fn repository(folder: &Path) {
    let git = |arguments: &[&str]| {
        let identity = ["-c", "user.name=n", "-c", "user.email=e@example.invalid"];
        let status = Command::new("git").args(identity).args(arguments).current_dir(folder).output().unwrap().status;
        assert!(status.success(), "{arguments:?}");
    };
    git(&["init", "-q"]);
    fs::write(folder.join("file"), "text").unwrap();
    git(&["add", "file"]);
    git(&["commit", "-q", "-m", "one"]);
}

#[test]
fn a_quick_run_leaves_results_and_a_page_and_is_not_run_twice() {
    let folder = tempfile::tempdir().unwrap();
    repository(folder.path());
    // Whatever other programs do.
    let calm = &["--disturbed", "100"];
    let output = quick(folder.path(), calm);
    let (told, shown) = (text(&output.stderr), text(&output.stdout));
    assert!(output.status.success(), "{told}");
    let first = records(folder.path());
    let workloads: Vec<&str> = first.iter().map(|record| record["workload"].as_str().unwrap()).collect();
    assert_eq!(workloads, ["fillrandom", "readrandom", "readmissing", "seekrandom", "fillseq"]);
    for record in &first {
        assert_eq!(record["engine"], "alluvium");
        assert!(record["ops_per_s"].as_f64().unwrap() > 0.0 && record["p99_us"].as_f64().unwrap() > 0.0, "{record}");
        assert!(!record["version"].as_str().unwrap().is_empty() && record["settings"].is_object(), "{record}");
        assert_eq!(record["wrong"], 0);
    }
    assert_eq!((&first[1]["found"], &first[2]["found"], &first[3]["ops"]), (&1000.into(), &0.into(), &100.into()));
    assert!(first[0]["write_amp"].as_f64().unwrap() > 0.0);
    for part in ["fillrandom", "seekrandom", "alluvium", "1.00k pairs"] {
        assert!(shown.contains(part), "{part} is not in\n{shown}");
    }
    let page = fs::read_to_string(folder.path().join("results/compare.html")).unwrap();
    assert!(page.ends_with("</html>\n") && page.contains("readmissing") && !page.contains("//"));
    // Stores and limits were removed.
    let left: Vec<String> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with("bench-compare"))
        .collect();
    assert!(left.is_empty(), "{left:?}");

    let output = quick(folder.path(), calm);
    assert_eq!(text(&output.stderr).matches("already measured").count(), 2, "{}", text(&output.stderr));
    assert_eq!(records(folder.path()), first);
    // Results for another number of threads do not exist yet.
    let output = quick(folder.path(), &["--threads", "2", "--workloads", "fillseq", "--disturbed", "100"]);
    assert!(output.status.success() && !text(&output.stderr).contains("already measured"));
    assert_eq!(records(folder.path()).len(), first.len() + 1);
    let output = run(folder.path(), &["report"]);
    assert!(text(&output.stdout).contains("2 threads"), "{}", text(&output.stderr));
}

#[test]
fn disturbed_measurements_are_repeated_and_marked() {
    let folder = tempfile::tempdir().unwrap();
    repository(folder.path());
    // A negative limit: every attempt counts as disturbed.
    let output = quick(folder.path(), &["--workloads", "fillseq", "--disturbed=-1", "--retries", "1"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr).matches(", disturbed").count(), 2, "{}", text(&output.stderr));
    let records = records(folder.path());
    assert_eq!((records.len(), &records[0]["disturbed"]), (1, &true.into()));
}

/// Every scenario, in processes of their own.
#[test]
fn a_small_run_prints_a_table_or_json() {
    let folder = tempfile::tempdir().unwrap();
    let few = ["small", "--engines", "alluvium", "--rounds", "2", "--stores", "2", "--bytes", "1M", "--idle", "0.01"];
    let output = run(folder.path(), &few);
    let shown = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for part in ["alluvium", "1,000 pairs, closed: blocks", "open, 10 puts, close, remove", "many: descriptors, each"] {
        assert!(shown.contains(part), "{part} is not in\n{shown}");
    }
    let output = run(folder.path(), &[&few[..], &["--json"]].concat());
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let figures = &report["engines"][0]["figures"];
    assert_eq!((&report["engines"][0]["engine"], &report["stores"]), (&"alluvium".into(), &2.into()));
    assert_eq!(figures["brief_ns"]["rounds"], 2);
    assert!(figures["large_closed_length"]["median"].as_f64().unwrap() > 1e6, "{figures}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn default_options_are_measured_without_a_limit() {
    let folder = tempfile::tempdir().unwrap();
    let workloads = "fillrandom,readrandom*500,readmissing*500,seekrandom*50";
    let arguments =
        ["default-options", "--engines", "alluvium", "--num", "1000", "--repeat", "1", "--disturbed", "100"];
    let output = run(folder.path(), &[&arguments[..], &["--workloads", workloads, "--check"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("default options, all of the machine's memory"), "{}", text(&output.stdout));
    let records = records(folder.path());
    assert_eq!((records.len(), &records[0]["limit"], &records[0]["memory_mb"]), (4, &"none".into(), &Value::Null));
    assert_eq!((&records[1]["found"], &records[2]["found"]), (&500.into(), &0.into()));
}

#[test]
fn bad_arguments_are_refused_with_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, reason) in [
        (&["--engines", "oracle"][..], "there is no engine \"oracle\""),
        (&["--workloads", "fillrandon"], "did you mean \"fillrandom\"?"),
        (&["--threads", "0"], "the number of threads"),
        (&["--num", "0"], "the number of keys"),
        (&["--memory", "lots"], "\"lots\" is not a size"),
        (&["--directory", "nowhere"], "nowhere is not a directory"),
        (&["--value-size", "99999999999"], "the value size"),
    ] {
        let arguments = [&["quick", "--no-limit"], arguments].concat();
        let output = run(folder.path(), &arguments);
        let told = text(&output.stderr);
        assert!(!output.status.success() && told.contains(reason), "{arguments:?}: {told}");
    }
    assert!(text(&run(folder.path(), &["report"]).stderr).contains("results"));
    let engines = run(folder.path(), &["engines"]).stdout;
    assert!(text(&engines).lines().any(|line| line.split_whitespace().take(2).eq(["alluvium", "ready"])));
}

#[test]
fn a_figure_is_drawn_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let arguments =
        ["figures", "clsm-6", "--engines", "alluvium", "--num", "2000", "--seconds", "0.02", "--threads", "2"];
    let output = run(folder.path(), &arguments);
    let shown = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(shown.contains("cLSM, figure 6") && shown.contains("alluvium"), "{shown}");
    let drawing = fs::read_to_string(folder.path().join("results/figure-clsm-6.json")).unwrap();
    let drawing: Value = serde_json::from_str(&drawing).unwrap();
    assert_eq!(drawing["panels"][0]["lines"][0]["engine"], "alluvium");
    // It reports whether the memory was limited.
    let conditions: Vec<&str> = drawing["conditions"].as_array().unwrap().iter().flat_map(Value::as_str).collect();
    assert!(
        conditions
            .iter()
            .any(|condition| condition.contains("memory, page cache included") || condition.starts_with("memory is ")),
        "{conditions:?}"
    );
    assert!(text(&run(folder.path(), &["figures", "nosuch"]).stderr).contains("nosuch"));
}

/// The first child of a figure is Alluvium's; the second is the store with a skiplist alone, which survives.
#[test]
fn an_engine_that_is_killed_leaves_a_figure_with_the_others_points() {
    let folder = tempfile::tempdir().unwrap();
    let figures = Command::new(env!("CARGO_BIN_EXE_bench-compare"))
        .args(["figures", "flodb-9", "--engines", "alluvium", "--num", "2000", "--seconds", "0.5", "--threads", "2"])
        .current_dir(folder.path())
        .env("TMPDIR", folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let children = format!("/proc/{0}/task/{0}/children", figures.id());
    let child = loop {
        match fs::read_to_string(&children).unwrap().split_whitespace().next() {
            Some(child) => break child.to_owned(),
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    };
    // Within its first point or, on a busy machine, during the load: it has the job by now, and two points of half a
    // second ahead of it.
    std::thread::sleep(Duration::from_millis(200));
    assert!(Command::new("kill").args(["-KILL", &child]).status().unwrap().success());
    let output = figures.wait_with_output().unwrap();
    let (shown, told) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{told}");
    let last = told.lines().last().unwrap_or_default();
    assert!(last.contains("1 died: flodb-9: alluvium in ") && last.contains("failure of the claim"), "{told}");
    assert!(
        (shown.contains("died:") || shown.contains("died before, in load"))
            && shown.contains("fails: inserts and deletes: alluvium survives"),
        "{shown}"
    );
    let drawing = fs::read_to_string(folder.path().join("results/figure-flodb-9.json")).unwrap();
    let drawing: Value = serde_json::from_str(&drawing).unwrap();
    let [ours, single] = [0, 1].map(|line| drawing["panels"][0]["lines"][line]["points"].as_array().unwrap().clone());
    assert!(ours[0]["y"].is_null() && ours[0]["died"]["why"].as_str().unwrap().contains("SIGKILL"), "{ours:?}");
    assert!(single.len() == 2 && single.iter().all(|point| point["y"].as_f64().unwrap() > 0.0), "{single:?}");
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["results"]);
}

#[test]
fn keyspaces_and_range_deletes_are_measured_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let few = ["--engines", "alluvium", "--rounds", "2", "--memory", "64M"];
    let runs: [(&str, &[&str], &str, &str); 2] = [
        ("keyspaces", &["--keyspaces", "5", "--pairs", "3", "--idle", "0.001"], "create all", "filled_drop_ns"),
        ("range-delete", &["--num", "1000", "--seeks", "100"], "delete the range", "flushed_ratio"),
    ];
    for (command, more, heading, figure) in runs {
        let output = run(folder.path(), &[&[command][..], &few, more].concat());
        let (shown, told) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success() && shown.contains(heading), "{shown}{told}");
        let kept = fs::read_to_string(folder.path().join(format!("results/{command}.json"))).unwrap();
        let kept: Value = serde_json::from_str(&kept).unwrap();
        assert_eq!(kept["engines"][0]["figures"][figure]["rounds"], 2, "{kept}");
        assert!(kept["versions"]["alluvium"].is_string() && kept["memory"] == 64 << 20, "{kept}");
        let json = run(folder.path(), &[&[command, "--json"][..], &few, more].concat());
        let json: Value = serde_json::from_str(&text(&json.stdout)).unwrap();
        assert_eq!(json["engines"][0]["engine"], "alluvium");
    }
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["results"]);
    let refused = run(folder.path(), &["keyspaces", "--engines", "lmdb"]);
    assert!(!refused.status.success() && text(&refused.stderr).contains("no keyspaces"));
}

/// Alluvium with each component and the plain directory, in both layouts.
#[test]
fn postmark_is_measured_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let few = ["postmark", "--targets", "skip,leveled,trunk,ext4", "--num", "300", "--transactions", "200"];
    let few = [&few[..], &["--rounds", "2", "--subdirectories", "2", "--no-limit"]].concat();
    let output = run(folder.path(), &few);
    let (shown, told) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{told}");
    for part in ["create: operations/s, settled", "20% reads: puts each", "300 files", "2 directories"] {
        assert!(shown.contains(part), "{part} is not in\n{shown}");
    }
    let kept = fs::read_to_string(folder.path().join("results/postmark-library-items.json")).unwrap();
    let kept: Value = serde_json::from_str(&kept).unwrap();
    let figures = |engine: usize| &kept["engines"][engine]["figures"];
    for (at, name) in ["skip", "leveled", "trunk", "ext4"].iter().enumerate() {
        assert_eq!(kept["engines"][at]["engine"], *name);
        assert_eq!(figures(at)["create_operations"]["median"], 300.0);
        assert!(figures(at)["delete_rate"]["min"].as_f64().unwrap() > 0.0);
    }
    // SkipStore, section 6.4: two gets for an append and for a read each.
    assert_eq!(figures(0)["reads20_gets"]["median"], 2.0);
    assert!(figures(3)["reads20_gets"].is_null());
    let inline = run(folder.path(), &[&few[..], &["--layout", "inline", "--json"]].concat());
    let inline: Value = serde_json::from_str(&text(&inline.stdout)).unwrap();
    assert_eq!((&inline["layout"], &inline["face"]), (&"inline".into(), &"library".into()));
    assert_eq!(inline["engines"][0]["figures"]["reads0_gets"]["median"], 1.0);
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["results"]);
    let refused = run(folder.path(), &["postmark", "--targets", "fat"]);
    assert!(!refused.status.success() && text(&refused.stderr).contains("no file system \"fat\""));
}

#[test]
fn metadata_is_measured_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let few = ["metadata", "--targets", "trunk,ext4", "--num", "250", "--per-directory", "100"];
    let output = run(folder.path(), &[&few[..], &["--rounds", "2", "--no-limit"]].concat());
    let (shown, told) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success() && shown.contains("readdir: entries/s"), "{shown}{told}");
    let kept = fs::read_to_string(folder.path().join("results/metadata-library-items.json")).unwrap();
    let kept: Value = serde_json::from_str(&kept).unwrap();
    for engine in 0..2 {
        assert!(kept["engines"][engine]["figures"]["unlink_settled_rate"]["min"].as_f64().unwrap() > 0.0, "{kept}");
    }
    // The entry and the directory's record.
    assert_eq!(kept["engines"][0]["figures"]["create_puts"]["min"].as_f64().unwrap().floor(), 2.0);
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["results"]);
}
