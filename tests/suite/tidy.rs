//! The rules of the source tree: layers, import cycles, unsafe code, leftovers, sizes. Each rule is a pure function
//! from the text of files to complaints. `planted` shows that each rule finds violations.

mod guarantees;
mod imports;
mod planted;
mod rules;
mod source;

use rules::Complaint;
use source::Source;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A file with more lines than this fails the test.
const LINES_MAX: usize = 800;
/// A file with more lines than this is printed.
const LINES_WARN: usize = 600;

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every file under `folder`, in order, except build outputs and hidden folders.
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

/// Every Rust file of the project, and whether it is a test.
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
    assert!(sources.len() > 30, "only {} files found: `walk` is broken", sources.len());
    sources
}

/// The files that git tracks; without git, everything except build outputs.
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
fn unsafe_code_has_safety_comments() {
    apply(rules::safety_comments);
}

/// The list is in `ARCHITECTURE.md`, section "Unsafe". Without that page there is nothing to compare with.
#[test]
fn unsafe_code_is_only_in_the_listed_files() {
    let Ok(page) = std::fs::read_to_string(repository().join("ARCHITECTURE.md")) else { return };
    let listed = rules::unsafe_list(&page);
    assert!(listed.is_some(), "ARCHITECTURE.md has no section \"Unsafe\" that lists files");
    let sources = sources();
    assert_none(rules::unsafe_files(&sources, &listed.unwrap_or_default()));
}

#[test]
fn no_leftovers() {
    apply(rules::leftovers);
}

#[test]
fn the_library_has_no_hidden_panics() {
    apply(rules::panics);
}

#[test]
fn the_library_uses_only_its_clock() {
    apply(rules::clocks);
}

#[test]
fn every_file_begins_with_a_description() {
    apply(rules::opening);
}

#[test]
fn files_are_small() {
    for source in sources() {
        let lines = source.text.lines().count();
        if lines > LINES_WARN {
            println!("{}: {lines} lines, consider splitting it", source.path);
        }
    }
    apply(|source| rules::length(source, LINES_MAX));
}

#[test]
fn functions_of_many_parameters_are_listed() {
    for source in sources() {
        for (line, name, count) in rules::many_parameters(&source) {
            println!("{}:{line}: {name} has {count} parameters, consider a struct", source.path);
        }
    }
}

#[test]
fn tracked_text_names_no_machine_registry_or_missing_page() {
    let mut complaints = Vec::new();
    for path in tracked_files() {
        // A tracked file that was removed from the working tree, or that is not text, is skipped.
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
    let (page, script, planted) = (read(guarantees::PAGE), read("scripts/planted-bugs.sh"), "src/util/planted.rs");
    let sources = sources();
    assert_none(guarantees::tests_exist(guarantees::PAGE, &page, &sources));
    assert_none(guarantees::tests_exist(guarantees::COMPARISON, &read(guarantees::COMPARISON), &sources));
    assert_none(guarantees::planted_tests_exist(&script, &sources));
    assert_none(guarantees::bugs_agree(&page, &script, &Source::new(planted, &read(planted))));
}
