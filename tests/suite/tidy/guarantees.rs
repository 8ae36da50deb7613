//! `docs/guarantees.md` names tests and planted bugs: each must exist, and no planted bug may be left out.

use super::rules::Complaint;
use super::source::{Source, line_of};
use std::collections::BTreeSet;

const PAGE: &str = "docs/guarantees.md";

/// What stands between backticks, with its place.
fn quoted(page: &str) -> impl Iterator<Item = (usize, &str)> {
    page.split('`').skip(1).step_by(2).map(|word| (word.as_ptr() as usize - page.as_ptr() as usize, word))
}

fn is_name(word: &str, also: char) -> bool {
    !word.is_empty()
        && word.chars().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == also)
}

/// The module that a file is: `tests/a.rs`, `src/a/b.rs`, `crates/x/tests/a.rs`.
fn module(path: &str) -> String {
    let inside = path.rsplit_once("tests/").filter(|_| !path.starts_with("src/")).map_or(path, |(_, inside)| inside);
    inside
        .trim_start_matches("src/")
        .trim_end_matches(".rs")
        .trim_end_matches("/mod")
        .trim_start_matches("suite/")
        .replace('/', "::")
}

/// Every word such as `kill::a_test` names a function in a file whose module is the word's front.
pub fn tests_exist(page: &str, sources: &[Source]) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for (at, word) in quoted(page) {
        let Some((front, name)) = word.rsplit_once("::") else { continue };
        if !word.split("::").all(|part| is_name(part, '_')) {
            continue;
        }
        let function = format!("fn {name}(");
        if !sources.iter().any(|source| module(&source.path) == front && source.text.contains(&function)) {
            let what = format!("names the test {word}, which is not there");
            complaints.push(Complaint { path: PAGE.to_owned(), line: line_of(page, at), what });
        }
    }
    complaints
}

/// The bugs that the page names are those of the script.
pub fn bugs_agree(page: &str, script: &str) -> Vec<Complaint> {
    let planted: BTreeSet<&str> = script
        .lines()
        .filter_map(|line| Some(line.split_once(" | ")?.0.trim()))
        .filter(|name| is_name(name, '-'))
        .collect();
    let named: BTreeSet<&str> =
        quoted(page).map(|(_, word)| word).filter(|word| word.contains('-') && is_name(word, '-')).collect();
    let complain = |what: String| Complaint { path: PAGE.to_owned(), line: 1, what };
    let missing = planted.difference(&named).map(|bug| complain(format!("does not name the planted bug {bug}")));
    let unknown =
        named.difference(&planted).map(|bug| complain(format!("names the planted bug {bug}, which is not there")));
    missing.chain(unknown).collect()
}

#[test]
fn names_that_lead_nowhere_are_caught() {
    let sources = [
        Source::new("tests/suite/crash/kill.rs", "#[test]\nfn a_test() {}\n"),
        Source::new("src/log/tests.rs", "fn another() {}\n"),
        Source::new("crates/cli/tests/soak.rs", "fn third() {}\n"),
    ];
    let complaints = |page: &str| tests_exist(page, &sources).len();
    assert_eq!(complaints("`kill::a_test`, `log::tests::another` and `soak::third`; `Durability::Sync`, `a_word`"), 0);
    assert_eq!(complaints("`kill::no_test`"), 1);
    assert_eq!(complaints("`log::a_test`"), 1);
    let script = "\nfirst-bug   | suite | kill::a_test | text\n# bug | target\n";
    assert_eq!(bugs_agree("`first-bug`, `kill -9`", script).len(), 0);
    assert_eq!(bugs_agree("nothing", script).len(), 1);
    assert_eq!(bugs_agree("`first-bug` `second-bug`", script).len(), 1);
}
