//! A Rust file split into code and comments, precisely enough for the rules. Not a parser: it knows comments, strings,
//! characters, lifetimes and matching brackets.

use std::collections::BTreeSet;

/// A file of the tree.
pub struct Source {
    /// Relative to the repository, with '/'.
    pub path: String,
    /// The text of the file.
    pub text: String,
    /// The text with comments, strings and characters blanked; same lines and columns (in bytes).
    pub code: String,
    /// The text with everything but comments blanked.
    pub comments: String,
    /// Whether the whole file is compiled for tests only.
    pub is_test: bool,
}

impl Source {
    pub fn new(path: &str, text: &str) -> Self {
        let (code, comments) = split(text);
        let is_test = is_test_path(path, &BTreeSet::new());
        Self { path: path.to_owned(), text: text.to_owned(), code, comments, is_test }
    }

    /// The code except items that are compiled for tests only.
    pub fn library_code(&self) -> String {
        if self.is_test { String::new() } else { blank_tests(&self.code) }
    }

    /// Paths, without ".rs", of the modules that this file declares for tests only.
    pub fn test_modules(&self) -> Vec<String> {
        let folder = match self.path.rsplit_once('/') {
            Some((folder, "mod.rs" | "lib.rs" | "main.rs")) => folder.to_owned(),
            _ => self.path.trim_end_matches(".rs").to_owned(),
        };
        test_items(&self.code)
            .into_iter()
            .filter_map(|(start, end)| {
                let item = self.code[start..end].rsplit(']').next()?.trim();
                let name = item.strip_suffix(';')?.split_once("mod ")?.1.trim();
                Some(format!("{folder}/{name}"))
            })
            .collect()
    }
}

/// Whether a path is that of a test: by its own name, or because it is in a module for tests.
pub fn is_test_path(path: &str, only_tests: &BTreeSet<String>) -> bool {
    let stem = path.trim_end_matches(".rs");
    path.starts_with("tests/")
        || path.contains("/tests/")
        || path.ends_with("/tests.rs")
        || only_tests.iter().any(|module| stem.strip_prefix(module.as_str()).is_some_and(starts_below))
}

fn starts_below(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with('/')
}

/// The line of a byte offset, counted from 1.
pub fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count() + 1
}

pub fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Offsets where `word` is a whole word.
pub fn words<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    text.match_indices(word).map(|(at, _)| at).filter(move |at| {
        let bytes = text.as_bytes();
        let before = *at == 0 || !is_word(bytes[at - 1]);
        let after = bytes.get(at + word.len()).is_none_or(|byte| !is_word(*byte));
        before && after
    })
}

/// The kind of a byte of the text.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    Code,
    Comment,
    Literal,
}

/// Splits a text into code and comments of the same length.
fn split(text: &str) -> (String, String) {
    let bytes = text.as_bytes();
    let mut code = vec![b' '; bytes.len()];
    let mut comments = code.clone();
    let mut at = 0;
    while at < bytes.len() {
        let (part, end) = next_part(bytes, at);
        for index in at..end {
            match part {
                _ if bytes[index] == b'\n' => (code[index], comments[index]) = (b'\n', b'\n'),
                Part::Code if bytes[index].is_ascii() => code[index] = bytes[index],
                Part::Comment if bytes[index].is_ascii() => comments[index] = bytes[index],
                _ => {}
            }
        }
        at = end;
    }
    (String::from_utf8(code).unwrap(), String::from_utf8(comments).unwrap())
}

/// The part that begins at `at`, and its end.
fn next_part(bytes: &[u8], at: usize) -> (Part, usize) {
    let rest = &bytes[at..];
    if rest.starts_with(b"//") {
        let length = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
        return (Part::Comment, at + length);
    }
    if rest.starts_with(b"/*") {
        return (Part::Comment, at + block_comment(rest));
    }
    let word_before = at > 0 && is_word(bytes[at - 1]);
    if let Some(length) = raw_string(rest).filter(|_| !word_before) {
        return (Part::Literal, at + length);
    }
    match rest[0] {
        b'"' => (Part::Literal, at + quoted(rest, b'"')),
        b'\'' if is_character(rest) => (Part::Literal, at + quoted(rest, b'\'')),
        _ => (Part::Code, at + 1),
    }
}

fn block_comment(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

/// The length of the raw string that begins here.
fn raw_string(rest: &[u8]) -> Option<usize> {
    let prefix = rest.iter().take_while(|byte| matches!(byte, b'b' | b'c' | b'r')).count();
    if prefix > 2 || !rest[..prefix].contains(&b'r') {
        return None;
    }
    let hashes = rest[prefix..].iter().take_while(|byte| **byte == b'#').count();
    if rest.get(prefix + hashes) != Some(&b'"') {
        return None;
    }
    let closing = [b"\"".as_slice(), &b"#".repeat(hashes)].concat();
    let body = prefix + hashes + 1;
    let end = rest[body..].windows(closing.len()).position(|window| window == closing);
    Some(end.map_or(rest.len(), |end| body + end + closing.len()))
}

fn quoted(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != quote {
        at += if rest[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(rest.len())
}

/// Whether a ' begins a character and not a lifetime.
fn is_character(rest: &[u8]) -> bool {
    match rest.get(1) {
        Some(b'\\') => true,
        Some(first) if first.is_ascii() => rest.get(2) == Some(&b'\''),
        Some(_) => rest.iter().skip(2).take(4).any(|byte| *byte == b'\''),
        None => false,
    }
}

/// Blanks every item that is compiled for tests only.
fn blank_tests(code: &str) -> String {
    let mut bytes = code.as_bytes().to_vec();
    for (start, end) in test_items(code) {
        for byte in &mut bytes[start..end] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
    }
    String::from_utf8(bytes).unwrap()
}

/// The ranges of items for tests only, including their attributes.
fn test_items(code: &str) -> Vec<(usize, usize)> {
    let mut items = Vec::new();
    let mut from = 0;
    while let Some(start) = code[from..].find("#[").map(|at| from + at) {
        let end = matching(code, start + 1);
        let attribute = &code[start..end];
        let conditional = attribute.starts_with("#[cfg(") && !attribute.contains("not(test");
        if attribute == "#[test]" || (conditional && words(attribute, "test").next().is_some()) {
            let item = item_end(code, end);
            items.push((start, item));
            from = item;
        } else {
            from = end;
        }
    }
    items
}

/// The end of the item at `at`: after its ';' or its block, whichever comes first outside brackets.
fn item_end(code: &str, mut at: usize) -> usize {
    let bytes = code.as_bytes();
    while at < bytes.len() {
        match bytes[at] {
            b';' => return at + 1,
            b'{' => return matching(code, at),
            b'(' | b'[' => at = matching(code, at),
            _ => at += 1,
        }
    }
    bytes.len()
}

/// The offset after the bracket that closes the one at `at`.
pub fn matching(code: &str, at: usize) -> usize {
    let mut depth = 0usize;
    for (offset, byte) in code.as_bytes()[at..].iter().enumerate() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at + offset + 1;
                }
            }
            _ => {}
        }
    }
    code.len()
}
