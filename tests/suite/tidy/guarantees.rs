//! `docs/guarantees.md`, `docs/comparison.md` and `scripts/planted-bugs.sh` name tests and planted bugs. Each of these must exist, and no
//! planted bug may be left out.

use super::rules::Complaint;
use super::source::{Source, line_of};
use std::collections::BTreeSet;

pub const PAGE: &str = "docs/guarantees.md";
pub const COMPARISON: &str = "docs/comparison.md";
const SCRIPT: &str = "scripts/planted-bugs.sh";

/// The words in backticks, with their offsets.
fn quoted(page: &str) -> impl Iterator<Item = (usize, &str)> {
    page.split('`').skip(1).step_by(2).map(|word| (word.as_ptr() as usize - page.as_ptr() as usize, word))
}

fn is_name(word: &str, also: char) -> bool {
    !word.is_empty()
        && word.chars().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == also)
}

/// The module of a file: `tests/suite/a/b.rs`, `src/a/b.rs`, `crates/x/tests/b.rs`.
fn module(path: &str) -> String {
    let inside = path.rsplit_once("tests/").filter(|_| !path.starts_with("src/")).map_or(path, |(_, inside)| inside);
    inside
        .trim_start_matches("src/")
        .trim_end_matches(".rs")
        .trim_end_matches("/mod")
        .trim_start_matches("suite/")
        .replace('/', "::")
}

/// Whether a file of the module `front` has the function.
fn has_test(sources: &[Source], front: &str, name: &str) -> bool {
    let function = format!("fn {name}(");
    sources.iter().any(|source| module(&source.path) == front && source.text.contains(&function))
}

/// Every word such as `crash::kill::a_test` must name a function in a file whose module is the front of the word.
pub fn tests_exist(path: &str, page: &str, sources: &[Source]) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for (at, word) in quoted(page) {
        let Some((front, name)) = word.rsplit_once("::") else { continue };
        if word.split("::").all(|part| is_name(part, '_')) && !has_test(sources, front, name) {
            let what = format!("names the test {word}, which does not exist");
            complaints.push(Complaint { path: path.to_owned(), line: line_of(page, at), what });
        }
    }
    complaints
}

/// A row of the script's table.
struct Row<'a> {
    line: usize,
    bug: &'a str,
    target: &'a str,
    test: &'a str,
}

/// The rows of the script's table, which is a string of several lines.
fn rows(script: &str) -> Vec<Row<'_>> {
    let lines = script.lines().enumerate().skip_while(|(_, line)| *line != "table='").skip(1);
    let table = lines.take_while(|(_, line)| *line != "'");
    let mut rows = Vec::new();
    for (at, line) in table {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let cell = |at: usize| cells.get(at).copied().unwrap_or_default();
        rows.push(Row { line: at + 1, bug: cell(0), target: cell(1), test: cell(2) });
    }
    rows
}

/// Every test in the script's table must exist.
pub fn planted_tests_exist(script: &str, sources: &[Source]) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for Row { line, target, test, .. } in rows(script) {
        // All models are in one file, the root of its crate.
        let (front, name) =
            if target == "loom" { ("models", test) } else { test.rsplit_once("::").unwrap_or(("", test)) };
        if !has_test(sources, front, name) {
            let what = format!("names the test {test}, which does not exist");
            complaints.push(Complaint { path: SCRIPT.to_owned(), line, what });
        }
    }
    complaints
}

/// `NumberBeforeLatch` is `number-before-latch`.
fn kebab(name: &str) -> String {
    let mut kebab = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !kebab.is_empty() {
            kebab.push('-');
        }
        kebab.push(letter.to_ascii_lowercase());
    }
    kebab
}

/// The bugs that can be planted: the names in the list `bugs! { ... }`.
fn bugs_of_the_library(planted: &Source) -> BTreeSet<String> {
    let list = planted.code.split_once("bugs! {").map_or("", |(_, rest)| rest.split('}').next().unwrap_or_default());
    list.split(',').map(str::trim).filter(|name| !name.is_empty()).map(kebab).collect()
}

/// The bugs in the library, those that the page names, and those that the script tries must be the same.
pub fn bugs_agree(page: &str, script: &str, planted: &Source) -> Vec<Complaint> {
    let of_library = bugs_of_the_library(planted);
    let of_script: BTreeSet<String> = rows(script).iter().map(|row| row.bug.to_owned()).collect();
    let is_bug = |word: &&str| word.contains('-') && is_name(word, '-');
    let of_page: BTreeSet<String> = quoted(page).map(|(_, word)| word).filter(is_bug).map(str::to_owned).collect();
    let mut complaints = Vec::new();
    for (path, named) in [(PAGE, of_page), (SCRIPT, of_script)] {
        let mut complain = |what| complaints.push(Complaint { path: path.to_owned(), line: 1, what });
        of_library.difference(&named).for_each(|bug| complain(format!("does not name the planted bug {bug}")));
        named
            .difference(&of_library)
            .for_each(|bug| complain(format!("names the planted bug {bug}, which does not exist")));
    }
    complaints
}

#[test]
fn names_of_missing_tests_and_bugs_are_caught() {
    let sources = [
        Source::new("tests/suite/crash/kill.rs", "#[test]\nfn a_test() {}\n"),
        Source::new("src/log/tests.rs", "fn another() {}\n"),
        Source::new("crates/cli/tests/soak.rs", "fn third() {}\n"),
        Source::new("crates/loom-models/tests/models.rs", "fn fourth() {}\n"),
    ];
    let complaints = |page: &str| tests_exist(PAGE, page, &sources).len();
    assert_eq!(
        complaints("`crash::kill::a_test`, `log::tests::another`, `soak::third`; `Durability::Sync`, `a_word`"),
        0
    );
    assert_eq!(complaints("`crash::kill::no_test`"), 1);
    assert_eq!(complaints("`kill::a_test`"), 1);
    assert_eq!(complaints("`log::a_test`"), 1);

    let script = |rows: &str| format!("# a | b\ntable='\n{rows}\n'\nparts | sort\n");
    let complaints = |rows: &str| planted_tests_exist(&script(rows), &sources).len();
    assert_eq!(complaints("a-bug | suite | crash::kill::a_test | text\na-bug | loom | fourth | text"), 0);
    assert_eq!(complaints("a-bug | suite | kill::a_test | text\na-bug | loom | fifth | text"), 2);

    let planted = Source::new("src/util/planted.rs", "bugs! {\n    /// What it does.\n    FirstBug,\n}\nfn is() {}");
    let agree = |page: &str, rows: &str| bugs_agree(page, &script(rows), &planted).len();
    assert_eq!(agree("`first-bug`, `kill -9`", "first-bug | suite | a | b"), 0);
    assert_eq!(agree("nothing", "first-bug | suite | a | b"), 1);
    assert_eq!(agree("`first-bug` `second-bug`", "first-bug | suite | a | b"), 1);
    assert_eq!(agree("`first-bug`", "second-bug | suite | a | b"), 2);
}
