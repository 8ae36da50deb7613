//! The import graph of the library: cycles between the modules of a folder, and folders with too many files.
//!
//! Not a compiler: it reads `use` statements and paths that begin with `crate`, `super` or `self`, and follows `pub
//! use`. Items that are compiled for tests only are left out.

use super::rules::Complaint;
use super::source::Source;
use std::collections::{BTreeMap, BTreeSet};

/// The maximum number of Rust files directly in a folder.
const FILES_MAX: usize = 15;

type Module = Vec<String>;

/// The library's modules: their imports, as paths, and their re-exports, by name.
struct Graph {
    modules: BTreeMap<Module, Imports>,
}

#[derive(Default)]
struct Imports {
    paths: Vec<Vec<String>>,
    exports: BTreeMap<String, Vec<String>>,
}

/// The module of a file of `src`.
fn module_of(path: &str) -> Option<Module> {
    let inside = path.strip_prefix("src/")?.strip_suffix(".rs")?;
    let mut module: Module = inside.split('/').map(str::to_owned).collect();
    if module.last().is_some_and(|last| last == "mod" || last == "lib") {
        module.pop();
    }
    Some(module)
}

/// The paths of a `use` tree, without `as`.
fn expand(tree: &str) -> Vec<String> {
    let Some(open) = tree.find('{') else {
        let path = tree.split(" as ").next().unwrap_or_default();
        return vec![path.split_whitespace().collect()];
    };
    let front: String = tree[..open].split_whitespace().collect();
    let inside = &tree[open + 1..tree.rfind('}').unwrap_or(tree.len())];
    let (mut parts, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, letter) in inside.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&inside[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&inside[start..]);
    let parts = parts.into_iter().map(str::trim).filter(|part| !part.is_empty());
    parts.flat_map(expand).map(|part| format!("{front}{part}")).collect()
}

/// A path's words, from the crate's root.
fn absolute(module: &[String], path: &str, children: impl Fn(&str) -> bool) -> Option<Vec<String>> {
    let mut words: Vec<String> = path.split("::").map(str::to_owned).collect();
    match words[0].as_str() {
        "crate" => return Some(words.split_off(1)),
        "self" => return Some([module, &words[1..]].concat()),
        "super" => {}
        first if children(first) => return Some([module, &words[..]].concat()),
        _ => return None,
    }
    let up = words.iter().take_while(|word| *word == "super").count();
    let base = module.get(..module.len().checked_sub(up)?)?;
    Some([base, &words[up..]].concat())
}

impl Imports {
    fn of(module: &Module, code: &str, children: impl Fn(&str) -> bool) -> Self {
        let mut imports = Self::default();
        let mut rest = String::new();
        for statement in code.split_inclusive(';') {
            let Some(at) = super::source::words(statement, "use").last() else {
                rest.push_str(statement);
                continue;
            };
            rest.push_str(&statement[..at]);
            let is_export = statement[..at].trim_end().ends_with(['b', ')'])
                && statement[..at]
                    .trim_end()
                    .rsplit(['\n', ';', '}'])
                    .next()
                    .is_some_and(|line| line.trim().starts_with("pub"));
            for path in expand(statement[at + 3..].trim_end_matches(';')) {
                let Some(words) = absolute(module, &path, &children) else { continue };
                if is_export {
                    imports.exports.insert(words.last().cloned().unwrap_or_default(), words);
                } else {
                    imports.paths.push(words);
                }
            }
        }
        // Paths in the code itself.
        for front in ["crate", "super", "self"] {
            for at in super::source::words(&rest, front) {
                let tail: String = rest[at..]
                    .chars()
                    .take_while(|letter| letter.is_alphanumeric() || *letter == '_' || *letter == ':')
                    .collect();
                let is_path = tail.contains("::") && !rest[..at].ends_with("::");
                if let Some(words) = is_path.then(|| absolute(module, tail.trim_end_matches(':'), |_| false)).flatten()
                {
                    imports.paths.push(words);
                }
            }
        }
        imports
    }
}

impl Graph {
    fn new(sources: &[Source]) -> Self {
        let files = sources.iter().filter(|source| !source.is_test);
        let files: BTreeMap<Module, &Source> =
            files.filter_map(|source| Some((module_of(&source.path)?, source))).collect();
        let imports = |(module, source): (&Module, &&Source)| {
            let is_child = |name: &str| files.contains_key(&[&module[..], &[name.to_owned()]].concat());
            (module.clone(), Imports::of(module, &source.library_code(), is_child))
        };
        Self { modules: files.iter().map(imports).collect() }
    }

    /// The module that a path leads to, through re-exports.
    fn resolve(&self, path: &[String], depth: usize) -> Module {
        let mut known = path.len();
        while known > 0 && !self.modules.contains_key(&path[..known]) {
            known -= 1;
        }
        let (module, rest) = path.split_at(known);
        let export = rest.first().and_then(|name| self.modules.get(module)?.exports.get(name));
        match export {
            Some(export) if depth < 8 && export[..] != *path => self.resolve(export, depth + 1),
            _ => module.to_vec(),
        }
    }

    /// For each folder, its direct members and the members that each of them imports.
    fn folders(&self) -> BTreeMap<Module, BTreeMap<Module, BTreeSet<Module>>> {
        let mut folders: BTreeMap<Module, BTreeMap<Module, BTreeSet<Module>>> = BTreeMap::new();
        for (module, imports) in &self.modules {
            for path in &imports.paths {
                let target = self.resolve(path, 0);
                let common = module.iter().zip(&target).take_while(|(one, other)| one == other).count();
                // A folder's own file is a member, too: if it has code of its own, it can be part of a cycle.
                let member = |path: &Module| path[..path.len().min(common + 1)].to_vec();
                let (from, to) = (member(module), member(&target));
                if from != to {
                    folders.entry(module[..common].to_vec()).or_default().entry(from).or_default().insert(to);
                }
            }
        }
        folders
    }
}

/// Members of a folder that can be reached from themselves.
fn in_cycles(edges: &BTreeMap<Module, BTreeSet<Module>>) -> Vec<&Module> {
    let reaches_itself = |start: &&Module| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![*start]);
        while let Some(module) = next.pop() {
            for target in edges.get(module).into_iter().flatten() {
                if target == *start {
                    return true;
                }
                if seen.insert(target) {
                    next.push(target);
                }
            }
        }
        false
    };
    edges.keys().filter(reaches_itself).collect()
}

/// Rule 8: there is no import cycle between the members of a folder.
pub fn cycles(sources: &[Source]) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for (folder, edges) in Graph::new(sources).folders() {
        let members: Vec<String> = in_cycles(&edges).into_iter().map(|member| member.join("/")).collect();
        if !members.is_empty() {
            let path = format!("src/{}", folder.join("/"));
            complaints.push(Complaint { path, line: 1, what: format!("import cycle: {}", members.join(", ")) });
        }
    }
    complaints
}

/// Rule 9: no folder of the library has more than fifteen files on one level.
pub fn large_folders(sources: &[Source]) -> Vec<Complaint> {
    let mut files: BTreeMap<&str, usize> = BTreeMap::new();
    for source in sources.iter().filter(|source| !source.is_test && source.path.starts_with("src/")) {
        *files.entry(source.path.rsplit_once('/').map_or("", |(folder, _)| folder)).or_default() += 1;
    }
    let large = files.into_iter().filter(|(_, count)| *count > FILES_MAX);
    let what = |count: usize| format!("{count} files on one level, at most {FILES_MAX}");
    large.map(|(path, count)| Complaint { path: path.to_owned(), line: 1, what: what(count) }).collect()
}
