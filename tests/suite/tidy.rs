//! The rules of the source tree: layers, import cycles, unsafe code, leftovers, sizes. Each rule is a pure function from the text of files to
//! complaints; `planted` shows that each rule finds what it is for.

mod guarantees;
mod imports;
mod planted;
mod rules;
mod source;

use rules::Complaint;
use source::Source;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Files past this many lines fail.
const LINES_MAX: usize = 800;
/// Files past this many lines are named in the output.
const LINES_WARN: usize = 600;

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every file under `folder`, in order, build outputs and hidden folders left out.
fn walk(folder: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            if name != "target" && !name.starts_with('.') {
                walk(&path, files);
            }
        } else {
            files.push(path);
        }
    }
}

fn relative(path: &Path) -> String {
    path.strip_prefix(repository()).unwrap_or(path).to_string_lossy().replace('\\', "/")
}

/// Every Rust file of the project, with which of them are tests.
fn sources() -> Vec<Source> {
    let mut files = Vec::new();
    for folder in ["src", "crates", "tests"] {
        walk(&repository().join(folder), &mut files);
    }
    files.retain(|path| path.extension().is_some_and(|extension| extension == "rs"));
    let mut sources: Vec<Source> =
        files.iter().map(|path| Source::new(&relative(path), &std::fs::read_to_string(path).unwrap())).collect();
    let only_tests: BTreeSet<String> = sources.iter().flat_map(Source::test_modules).collect();
    for source in &mut sources {
        source.is_test = source::is_test_path(&source.path, &only_tests);
    }
    assert!(sources.len() > 30, "only {} files found: the walk is broken", sources.len());
    sources
}

/// What git tracks; without git, everything but build outputs.
fn tracked_files() -> Vec<PathBuf> {
    let listed = std::process::Command::new("git").args(["ls-files", "-z"]).current_dir(repository()).output();
    if let Ok(output) = listed
        && output.status.success()
        && !output.stdout.is_empty()
    {
        let names = String::from_utf8(output.stdout).unwrap();
        return names.split('\0').filter(|name| !name.is_empty()).map(|name| repository().join(name)).collect();
    }
    let mut files = Vec::new();
    walk(repository(), &mut files);
    files
}

fn assert_none(complaints: Vec<Complaint>) {
    let lines: Vec<String> = complaints.iter().map(Complaint::to_string).collect();
    assert!(lines.is_empty(), "{} complaints:\n{}", lines.len(), lines.join("\n"));
}

fn apply(rule: impl Fn(&Source) -> Vec<Complaint>) {
    assert_none(sources().iter().flat_map(rule).collect());
}

#[test]
fn layers_import_only_lower_layers() {
    apply(rules::layers);
}

#[test]
fn no_folder_has_an_import_cycle() {
    assert_none(imports::cycles(&sources()));
}

#[test]
fn no_folder_has_too_many_files() {
    assert_none(imports::large_folders(&sources()));
}

#[test]
fn unsafe_code_says_why_it_is_sound() {
    apply(rules::safety_comments);
}

/// The list stands in `ARCHITECTURE.md`, section "Unsafe"; there is nothing to compare with before that page exists.
#[test]
fn unsafe_code_is_only_in_the_listed_files() {
    let Ok(page) = std::fs::read_to_string(repository().join("ARCHITECTURE.md")) else { return };
    let listed = rules::unsafe_list(&page);
    assert!(listed.is_some(), "ARCHITECTURE.md has no section \"Unsafe\" that lists files");
    let sources = sources();
    assert_none(rules::unsafe_files(&sources, &listed.unwrap_or_default()));
}

#[test]
fn nothing_is_left_over() {
    apply(rules::leftovers);
}

#[test]
fn the_library_has_no_hidden_panics() {
    apply(rules::panics);
}

#[test]
fn the_library_asks_only_its_clock_for_the_time() {
    apply(rules::clocks);
}

#[test]
fn every_file_says_what_it_is() {
    apply(rules::opening);
}

#[test]
fn files_are_small() {
    for source in sources() {
        let lines = source.text.lines().count();
        if lines > LINES_WARN {
            println!("{}: {lines} lines, think of a split", source.path);
        }
    }
    apply(|source| rules::length(source, LINES_MAX));
}

#[test]
fn functions_of_many_parameters_are_listed() {
    for source in sources() {
        for (line, name, count) in rules::many_parameters(&source) {
            println!("{}:{line}: {name} has {count} parameters, think of a struct", source.path);
        }
    }
}

#[test]
fn tracked_text_names_no_machine_and_no_missing_page() {
    let mut complaints = Vec::new();
    for path in tracked_files() {
        // A file that is tracked but removed in the working tree, or not text, has nothing to say.
        if let Ok(text) = std::fs::read_to_string(&path) {
            complaints.extend(rules::machine_names(&relative(&path), &text));
            complaints.extend(rules::missing_pages(&relative(&path), &text));
        }
    }
    assert_none(complaints);
}

#[test]
fn guarantees_and_planted_bugs_name_what_exists() {
    let read = |path: &str| std::fs::read_to_string(repository().join(path)).unwrap();
    let (page, script, planted) = (read("docs/guarantees.md"), read("scripts/planted-bugs.sh"), "src/util/planted.rs");
    let sources = sources();
    assert_none(guarantees::tests_exist(&page, &sources));
    assert_none(guarantees::planted_tests_exist(&script, &sources));
    assert_none(guarantees::bugs_agree(&page, &script, &Source::new(planted, &read(planted))));
}
