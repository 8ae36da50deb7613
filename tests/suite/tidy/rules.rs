//! The rules. Each takes one file (or the list of files) and returns what is wrong.

use super::source::{Source, line_of, matching, words};
use std::collections::BTreeSet;
use std::fmt;

/// The layers, lowest first (`ARCHITECTURE.md`). A module imports only from lower ones.
const LAYERS: [&[&str]; 9] = [
    &["util"],
    &["io"],
    &["format"],
    &["cache", "filter", "merge"],
    &["memory", "log", "manifest", "branch", "value", "changes"],
    &["disk"],
    &["engine"],
    &["db"],
    &["aio"],
];

/// The disk components never import each other.
const DISK_COMPONENTS: [&str; 2] = ["trunk", "levels"];

/// A SAFETY comment may begin at most this many lines above its unsafe block.
const SAFETY_LINES: usize = 12;

/// A violation of a rule, with its place.
#[derive(Debug)]
pub struct Complaint {
    pub path: String,
    pub line: usize,
    pub what: String,
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

fn complaint(path: &str, line: usize, what: impl Into<String>) -> Complaint {
    Complaint { path: path.to_owned(), line, what: what.into() }
}

fn layer_of(module: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&module))
}

/// Rule 1: a module imports only from lower layers.
pub fn layers(source: &Source) -> Vec<Complaint> {
    let Some(inside) = source.path.strip_prefix("src/") else { return Vec::new() };
    let module = inside.split('/').next().unwrap_or_default().trim_end_matches(".rs");
    if module == "lib" || source.is_test {
        return Vec::new();
    }
    let Some(own) = layer_of(module) else {
        return vec![complaint(&source.path, 1, format!("module {module} has no layer in tests/suite/tidy/rules.rs"))];
    };
    let code = source.library_code();
    let mut complaints = Vec::new();
    for (at, target) in imports(&code) {
        let allowed = target == module || layer_of(&target).is_some_and(|layer| layer < own);
        if !allowed {
            complaints.push(complaint(&source.path, line_of(&code, at), format!("{module} imports crate::{target}")));
        }
    }
    complaints.extend(climbs(source, inside, &code));
    complaints.extend(component_siblings(source, inside, &code));
    complaints
}

/// The first segment after every `crate::`, also inside groups.
fn imports(code: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for at in words(code, "crate") {
        let Some(rest) = code[at..].strip_prefix("crate::") else { continue };
        let path = at + "crate::".len();
        if rest.starts_with('{') {
            let group = &code[path + 1..matching(code, path) - 1];
            found.extend(group_heads(group).into_iter().map(|head| (at, head)));
        } else {
            found.push((at, head(rest)));
        }
    }
    found
}

fn head(path: &str) -> String {
    path.trim_start().chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect()
}

/// The first segment of every member of a group of imports.
fn group_heads(group: &str) -> Vec<String> {
    let (mut heads, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, letter) in group.char_indices().chain([(group.len(), ',')]) {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                heads.push(head(&group[start..at]));
                start = at + 1;
            }
            _ => {}
        }
    }
    heads.retain(|head| !head.is_empty());
    heads
}

/// `super::` must not reach the root of the crate: from there any module can be imported.
fn climbs(source: &Source, inside: &str, code: &str) -> Vec<Complaint> {
    let module = inside.trim_end_matches(".rs").trim_end_matches("/mod");
    let depth = module.split('/').count();
    let mut complaints = Vec::new();
    for at in words(code, "super") {
        if code[..at].ends_with("super::") {
            continue;
        }
        let mut rest = &code[at..];
        let mut steps = 0;
        while let Some(next) = rest.strip_prefix("super::") {
            (rest, steps) = (next, steps + 1);
        }
        if steps >= depth {
            complaints.push(complaint(&source.path, line_of(code, at), "super:: climbs to the root of the crate"));
        }
    }
    complaints
}

fn component_siblings(source: &Source, inside: &str, code: &str) -> Vec<Complaint> {
    let Some(component) = inside.strip_prefix("disk/").and_then(|rest| rest.split('/').next()) else {
        return Vec::new();
    };
    let component = component.trim_end_matches(".rs");
    if !DISK_COMPONENTS.contains(&component) {
        return Vec::new();
    }
    let others = DISK_COMPONENTS.iter().filter(|other| **other != component);
    others
        .flat_map(|other| words(code, other).map(move |at| (at, other)))
        .filter(|(at, _)| code[..*at].ends_with("disk::") || code[..*at].ends_with("super::"))
        .map(|(at, other)| complaint(&source.path, line_of(code, at), format!("disk::{component} imports {other}")))
        .collect()
}

/// Rule 2: an unsafe block or impl has a SAFETY comment in the lines above.
pub fn safety_comments(source: &Source) -> Vec<Complaint> {
    let comments: Vec<&str> = source.comments.lines().collect();
    let mut complaints = Vec::new();
    for at in words(&source.code, "unsafe") {
        let what = source.code[at + "unsafe".len()..].trim_start();
        if !what.starts_with('{') && !what.starts_with("impl") {
            continue;
        }
        let line = line_of(&source.code, at);
        let above = &comments[line.saturating_sub(SAFETY_LINES + 1)..line];
        if !above.iter().any(|comment| comment.contains("SAFETY:")) {
            complaints.push(complaint(&source.path, line, "unsafe without a SAFETY comment above"));
        }
    }
    complaints
}

/// The files that a page lists in its section "Unsafe". Names that do not begin with a folder of the repository are
/// below `src`. `None` if there is no such section, or if it lists nothing.
pub fn unsafe_list(page: &str) -> Option<BTreeSet<String>> {
    let is_heading = |line: &&str| line.starts_with('#');
    let names_unsafe = |line: &&str| line.to_lowercase().contains("unsafe");
    let mut lines = page.lines().skip_while(|line| !(is_heading(line) && names_unsafe(line)));
    lines.next()?;
    let listed: BTreeSet<String> = lines
        .take_while(|line| !is_heading(line))
        .flat_map(|line| line.split('`').skip(1).step_by(2))
        .filter(|name| name.ends_with(".rs"))
        .map(|name| match name.starts_with("src/") || name.starts_with("crates/") {
            true => name.to_owned(),
            false => format!("src/{name}"),
        })
        .collect();
    (!listed.is_empty()).then_some(listed)
}

/// Rule 2, second half: the library's files with unsafe code are exactly the listed ones. Tests are exempt.
pub fn unsafe_files(sources: &[Source], listed: &BTreeSet<String>) -> Vec<Complaint> {
    let found: BTreeSet<String> = sources
        .iter()
        .filter(|source| words(&source.library_code(), "unsafe").next().is_some())
        .map(|source| source.path.clone())
        .collect();
    let unlisted = found.difference(listed).map(|path| complaint(path, 1, "has unsafe code and is not listed"));
    let idle = listed.difference(&found).map(|path| complaint(path, 1, "is listed and has no unsafe code"));
    unlisted.chain(idle).collect()
}

/// Rule 3: no word that means "later", no debugging code, no code in comments.
pub fn leftovers(source: &Source) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for word in [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("X", "XX")] {
        for at in words(&source.text, word) {
            complaints.push(complaint(&source.path, line_of(&source.text, at), format!("{word} left over")));
        }
    }
    for name in ["dbg", "todo", "unimplemented"] {
        for at in words(&source.code, name) {
            if source.code[at + name.len()..].starts_with('!') {
                complaints.push(complaint(&source.path, line_of(&source.code, at), format!("{name}! left over")));
            }
        }
    }
    for (at, line) in source.comments.lines().enumerate() {
        if let Some(text) = line.trim().strip_prefix("//")
            && looks_like_code(text)
        {
            complaints.push(complaint(&source.path, at + 1, "code in a comment"));
        }
    }
    complaints
}

/// Whether the text of a plain comment is a line of code. Documentation may contain code.
fn looks_like_code(comment: &str) -> bool {
    if comment.starts_with('/') || comment.starts_with('!') {
        return false;
    }
    let text = comment.trim();
    let only_closers = !text.is_empty() && text.chars().all(|letter| "})];,".contains(letter));
    let starts = ["let ", "use ", "return ", "pub ", "#["].iter().any(|start| text.starts_with(start));
    let calls = text.as_bytes().windows(2).any(|pair| super::source::is_word(pair[0]) && pair[1] == b'(');
    let statement = text.ends_with(';') && (starts || calls || text.contains(" = ") || text.contains("::"));
    only_closers || statement || text.ends_with('{')
}

/// Rule 3, second half: the library returns errors. Only `assert!` and similar macros, which report a bug, may panic.
pub fn panics(source: &Source) -> Vec<Complaint> {
    if !source.path.starts_with("src/") {
        return Vec::new();
    }
    let code = source.library_code();
    let mut complaints = Vec::new();
    for pattern in [".unwrap()", ".expect(", "panic!"] {
        for (at, _) in code.match_indices(pattern) {
            complaints.push(complaint(&source.path, line_of(&code, at), format!("{pattern} in the library")));
        }
    }
    complaints
}

/// Rule 4: a file begins with a comment that says what it is.
pub fn opening(source: &Source) -> Vec<Complaint> {
    let said = source.text.lines().next().and_then(|line| line.strip_prefix("//!"));
    match said.map(str::trim) {
        Some(text) if text.starts_with(char::is_alphanumeric) || text.starts_with('`') => Vec::new(),
        _ => vec![complaint(&source.path, 1, "does not begin with //! and what it is")],
    }
}

/// Rule 5: files are short.
pub fn length(source: &Source, lines_max: usize) -> Vec<Complaint> {
    match source.text.lines().count() {
        lines if lines > lines_max => {
            vec![complaint(&source.path, lines, format!("{lines} lines, more than {lines_max}"))]
        }
        _ => Vec::new(),
    }
}

/// The files of the library that may use the system's time: the clock of the I/O layer, and waits of microseconds.
const CLOCKS: [&str; 3] = ["src/io/clock.rs", "src/util/sync.rs", "src/util/sync/points.rs"];

/// Rule 7: the library reads the time and sleeps only through its clock, so that a test can simulate it.
pub fn clocks(source: &Source) -> Vec<Complaint> {
    if !source.path.starts_with("src/") || CLOCKS.contains(&source.path.as_str()) {
        return Vec::new();
    }
    let code = source.library_code();
    let mut complaints = Vec::new();
    for word in ["Instant", "SystemTime", "thread::sleep", "clock_gettime", "nanosleep"] {
        for (at, _) in code.match_indices(word) {
            let what = format!("{word} in the library, which has a clock (src/io/clock.rs)");
            complaints.push(complaint(&source.path, line_of(&code, at), what));
        }
    }
    complaints
}

/// Folders of one machine, at the start of a path.
const MACHINE_FOLDERS: [&str; 4] =
    [concat!("/wo", "rk/"), concat!("/ho", "me/"), concat!("/ro", "ot/"), concat!("/Us", "ers/")];
/// Hosts of package registries. A lock file names the index differently.
const REGISTRY_HOSTS: [&str; 6] = [
    concat!("index.", "crates.io"),
    concat!("static.", "crates.io"),
    concat!("registry.", "npmjs.org"),
    concat!("py", "pi.org"),
    concat!("proxy.", "golang.org"),
    concat!("deb.", "debian.org"),
];
/// Settings that make cargo use another registry.
const REGISTRY_SETTINGS: [&str; 3] = [concat!("replace", "-with"), concat!("[sou", "rce."), concat!("[regis", "tries")];
/// The only source that packages in the lock file may have.
const LOCK_SOURCE: &str = "source = \"registry+https://github.com/rust-lang/crates.io-index\"";

/// Rule 6: tracked text names no machine and no registry.
pub fn machine_names(path: &str, text: &str) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let mut complain = |what: &str| complaints.push(complaint(path, at + 1, format!("names {what}")));
        for folder in MACHINE_FOLDERS {
            if line.match_indices(folder).any(|(at, _)| begins_a_path(line, at)) {
                complain(folder);
            }
        }
        REGISTRY_HOSTS.iter().filter(|host| line.contains(**host)).for_each(|host| complain(host));
        if path.ends_with(".toml") {
            let settings = REGISTRY_SETTINGS.iter().filter(|setting| line.contains(**setting));
            settings.for_each(|setting| complain(setting));
        }
        if path.ends_with("Cargo.lock") && line.starts_with("source = ") && line != LOCK_SOURCE {
            complain("another registry");
        }
    }
    complaints
}

fn begins_a_path(line: &str, at: usize) -> bool {
    let before = line[..at].chars().next_back();
    before.is_none_or(|letter| !letter.is_alphanumeric() && !"._-/})>*".contains(letter))
}

/// Pages that are not part of the repository.
const MISSING_PAGES: [&str; 6] = [
    concat!("design", ".md"),
    concat!("protocol", ".md"),
    concat!("machine", ".md"),
    concat!("rivals", ".md"),
    concat!("practice", ".md"),
    concat!("style", ".md"),
];

/// Rule 10: no text refers to a page that is not in the repository.
pub fn missing_pages(path: &str, text: &str) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for (at, line) in text.lines().enumerate() {
        for page in MISSING_PAGES {
            let begins_a_name = |at: usize| {
                let before = line[..at].chars().next_back();
                before.is_none_or(|letter| !letter.is_alphanumeric() && !"-_".contains(letter))
            };
            if line.match_indices(page).any(|(at, _)| begins_a_name(at)) {
                complaints.push(complaint(path, at + 1, format!("names {page}, which is not in the repository")));
            }
        }
    }
    complaints
}

/// A function with more parameters than this, not counting `self`, may need a struct.
const PARAMETERS_MAX: usize = 5;

/// The library's functions with more parameters than that: line, name, count. For information only.
pub fn many_parameters(source: &Source) -> Vec<(usize, String, usize)> {
    if !source.path.starts_with("src/") {
        return Vec::new();
    }
    let code = source.library_code();
    let mut found = Vec::new();
    for at in words(&code, "fn") {
        let Some(open) = code[at..].find(['(', ';', '{']).map(|open| at + open) else { continue };
        let name = code[at + 2..open].split(['<', '(']).next().unwrap_or_default().trim().to_owned();
        if name.is_empty() || !code[open..].starts_with('(') {
            continue;
        }
        let (inside, mut depth, mut count, mut has_word) = (&code[open + 1..matching(&code, open) - 1], 0, 0, false);
        for letter in inside.chars() {
            match letter {
                '(' | '[' | '<' => depth += 1,
                ')' | ']' | '>' => depth -= 1,
                ',' if depth == 0 => {
                    count += usize::from(has_word);
                    has_word = false;
                    continue;
                }
                _ => {}
            }
            has_word |= letter.is_alphanumeric();
        }
        count += usize::from(has_word);
        let has_self = inside.split(',').next().is_some_and(|first| words(first, "self").next().is_some());
        let count = count - usize::from(has_self);
        if count > PARAMETERS_MAX {
            found.push((line_of(&code, at), name, count));
        }
    }
    found
}
