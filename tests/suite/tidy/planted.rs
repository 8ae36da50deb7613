//! Every rule finds its violations, planted in strings, and accepts similar text that is not one.

use super::imports;
use super::rules::{self, Complaint};
use super::source::{Source, is_test_path};
use std::collections::BTreeSet;

fn lines(complaints: &[Complaint]) -> Vec<usize> {
    complaints.iter().map(|complaint| complaint.line).collect()
}

fn layer_lines(path: &str, text: &str) -> Vec<usize> {
    lines(&rules::layers(&Source::new(path, text)))
}

#[test]
fn imports_of_higher_or_equal_layers_are_caught() {
    assert_eq!(layer_lines("src/log/writer.rs", "use crate::util::Error;\nuse crate::io::Storage;"), []);
    assert_eq!(layer_lines("src/log/writer.rs", "use crate::log::chunk;"), []);
    assert_eq!(layer_lines("src/log/writer.rs", "\nuse crate::memory::Memtable;"), [2]);
    assert_eq!(layer_lines("src/log/writer.rs", "fn f() { crate::db::open() }"), [1]);
    assert_eq!(layer_lines("src/io/mod.rs", "use crate::{util::{Error, db}, format};"), [1]);
    assert_eq!(
        layer_lines("src/cache/page.rs", "use crate::{\n    filter::A,\n    merge::{B, C},\n    util,\n};"),
        [1, 1]
    );
    assert_eq!(layer_lines("src/util/key.rs", "use crate::Error;"), [1]);
    assert_eq!(layer_lines("src/novel/mod.rs", ""), [1]);
    assert_eq!(layer_lines("src/lib.rs", "pub use crate::db::Db;"), []);
    assert_eq!(layer_lines("tests/suite/api/model.rs", "use crate::db::Db;"), []);
}

#[test]
fn imports_for_tests_and_in_comments_are_free() {
    assert_eq!(layer_lines("src/log/tests.rs", "use crate::db::Db;"), []);
    assert_eq!(layer_lines("src/log/mod.rs", "// crate::db\n/* crate::db */ const A: &str = \"crate::db\";"), []);
    assert_eq!(layer_lines("src/log/mod.rs", "#[cfg(test)]\nmod tests {\n use crate::db::Db;\n}\nuse crate::db;"), [5]);
    assert_eq!(layer_lines("src/log/mod.rs", "#[cfg(not(test))]\nuse crate::db::Db;"), [2]);
    assert_eq!(
        layer_lines("src/log/mod.rs", "#[cfg(test)]\n#[allow(unused)]\nuse crate::db::Db;\nuse crate::db;"),
        [4]
    );
}

fn cycles(files: &[(&str, &str)]) -> Vec<String> {
    let sources: Vec<Source> = files.iter().map(|(path, text)| Source::new(path, text)).collect();
    imports::cycles(&sources).iter().map(|complaint| complaint.what.clone()).collect()
}

#[test]
fn import_cycles_of_a_folder_are_caught() {
    let top = ("src/log/mod.rs", "mod a;\nmod b;\nmod c;\npub use b::B;");
    let cycle = |a, b| cycles(&[top, ("src/log/a.rs", a), ("src/log/b.rs", b), ("src/log/c.rs", "pub struct C;")]);
    assert_eq!(cycle("use super::b::B;", "pub struct B;"), Vec::<String>::new());
    assert_eq!(cycle("use super::b::B;", "use super::a::A;"), ["import cycle: log/a, log/b"]);
    // By a path in the code, from the crate's root, in a group, and by a re-export.
    assert_eq!(cycle("fn f() { super::b::f() }", "use super::{a::A, c};").len(), 1);
    assert_eq!(cycle("use crate::log::b::B;", "use crate::log::a::{self, A};").len(), 1);
    assert_eq!(cycle("use super::B;", "use super::a::A;").len(), 1);
    // Imports for tests only, in a comment or in a string do not count.
    assert_eq!(
        cycle("use super::b::B;", "#[cfg(test)]\nmod tests {\n    use super::super::a::A;\n}"),
        Vec::<String>::new()
    );
    assert_eq!(
        cycle("use super::b::B;", "// use super::a::A;\nconst A: &str = \"super::a::A\";"),
        Vec::<String>::new()
    );
    // A subfolder counts as one member. The folder's own file is a member, too.
    let folders = [("src/log/a/x.rs", "use crate::log::b::y::Y;"), ("src/log/b/y.rs", "use crate::log::a::x::X;")];
    assert_eq!(cycles(&folders), ["import cycle: log/a, log/b"]);
    let own = [("src/log/mod.rs", "mod a;\nuse a::A;\npub struct Log;"), ("src/log/a.rs", "use super::Log;")];
    assert_eq!(cycles(&own), ["import cycle: log, log/a"]);
}

#[test]
fn large_folders_are_caught() {
    let files = |count: usize| -> Vec<Source> {
        (0..count).map(|at| Source::new(&format!("src/log/file{at}.rs"), "")).collect()
    };
    assert!(imports::large_folders(&files(15)).is_empty());
    assert_eq!(imports::large_folders(&files(16)).len(), 1);
}

#[test]
fn missing_pages_are_caught() {
    let page = concat!("design", ".md");
    let found = |text: &str| lines(&rules::missing_pages("src/log/mod.rs", text));
    assert_eq!(found(&format!("//! One.\n//! See {page}, The log.")), [2]);
    assert_eq!(found(&format!("//! See `docs/{page}`.")), [1]);
    assert_eq!(found(&format!("//! See re{page}.")), []);
}

#[test]
fn functions_of_many_parameters_are_found() {
    let found = |text: &str| rules::many_parameters(&Source::new("src/log/mod.rs", text));
    assert_eq!(found("fn f(a: A, b: B<C, D>, c: (E, F), d: D, e: E) {}"), []);
    assert_eq!(found("\nfn g<T>(&self, a: A, b: B, c: C, d: D, e: E, f: F,) {}"), [(2, "g".to_owned(), 6)]);
}

#[test]
fn the_systems_time_is_caught() {
    let clocks = |path: &str, text: &str| lines(&rules::clocks(&Source::new(path, text)));
    assert_eq!(
        clocks(
            "src/engine/background/log_threads.rs",
            "use std::time::{Duration, Instant};\nlet now = Instant::now();"
        ),
        [1, 2]
    );
    assert_eq!(
        clocks("src/engine/background/log_threads.rs", "std::thread::sleep(LOOK);\nself.clock.sleep(LOOK);"),
        [1]
    );
    assert_eq!(clocks("src/log/mod.rs", "// Instant\n#[cfg(test)]\nmod tests { use std::time::Instant; }"), []);
    assert_eq!(clocks("src/log/tests.rs", "Instant::now()"), []);
    assert_eq!(clocks("src/io/clock.rs", "Instant::now()"), []);
    assert_eq!(clocks("crates/cli/src/lib.rs", "Instant::now()"), []);
}

#[test]
fn imports_through_the_root_are_caught() {
    assert_eq!(layer_lines("src/log/writer.rs", "use super::chunk;"), []);
    assert_eq!(layer_lines("src/log/writer.rs", "use super::super::memory;"), [1]);
    assert_eq!(layer_lines("src/log/mod.rs", "use super::memory;"), [1]);
    assert_eq!(layer_lines("src/disk/trunk/node.rs", "use super::super::DiskComponent;"), []);
    assert_eq!(layer_lines("src/disk/trunk/node.rs", "use super::super::super::db;"), [1]);
}

#[test]
fn disk_components_that_import_each_other_are_caught() {
    assert_eq!(layer_lines("src/disk/trunk/node.rs", "use crate::disk::levels::Run;"), [1]);
    assert_eq!(layer_lines("src/disk/levels/run.rs", "use super::super::trunk::Node;"), [1]);
    assert_eq!(layer_lines("src/disk/levels/run.rs", "let levels = crate::disk::levels::new();"), []);
    assert_eq!(layer_lines("src/disk/mod.rs", "pub mod levels;\nuse crate::disk::trunk::Node;"), []);
}

#[test]
fn unsafe_code_without_a_reason_is_caught() {
    let found = |text: &str| lines(&rules::safety_comments(&Source::new("src/io/posix.rs", text)));
    assert_eq!(found("// SAFETY: the pointer is valid.\nunsafe { f() }"), []);
    assert_eq!(found("let a = unsafe { f() };"), [1]);
    assert_eq!(found("unsafe impl Send for A {}"), [1]);
    assert_eq!(found("// SAFETY: plain data.\nunsafe impl Send for A {}"), []);
    assert_eq!(found("// unsafe { f() }\nlet a = \"unsafe {\"; type F = unsafe fn();"), []);
    assert_eq!(found("let a = \"SAFETY: in a string\";\nunsafe { f() }"), [2]);
    let far = format!("// SAFETY: far away.\n{}unsafe {{ f() }}", "\n".repeat(20));
    assert_eq!(found(&far), [22]);
}

#[test]
fn unsafe_code_in_unlisted_files_is_caught() {
    let page = "# Architecture\n`src/other.rs`\n## Unsafe code\n- `io/map.rs`: maps\n- `crates/c/src/lib.rs`\n## Next\n`src/a.rs`";
    let listed = rules::unsafe_list(page).unwrap();
    assert_eq!(listed.iter().map(String::as_str).collect::<Vec<_>>(), ["crates/c/src/lib.rs", "src/io/map.rs"]);
    assert_eq!(rules::unsafe_list("# Architecture\n## The unsafe list\nnone"), None);
    assert_eq!(rules::unsafe_list("# Architecture"), None);
    let sources = [
        Source::new("src/io/map.rs", "unsafe { f() }"),
        Source::new("src/log/mod.rs", "// unsafe { f() }\n#[cfg(test)]\nmod tests { fn f() { unsafe { g() } } }"),
        Source::new("src/db/db.rs", "unsafe fn f() {}"),
    ];
    let complaints = rules::unsafe_files(&sources, &listed);
    let paths: Vec<&str> = complaints.iter().map(|complaint| complaint.path.as_str()).collect();
    assert_eq!(paths, ["src/db/db.rs", "crates/c/src/lib.rs"], "{complaints:?}");
}

#[test]
fn leftovers_are_caught() {
    let found = |text: &str| lines(&rules::leftovers(&Source::new("src/log/mod.rs", text)));
    assert_eq!(found(concat!("// TO", "DO: later\nfn f() {}")), [1]);
    assert_eq!(found(concat!("fn f() {}\n/// FIX", "ME\n")), [2]);
    assert_eq!(found(concat!("let a = \"X", "XX\";")), [1]);
    assert_eq!(found("let AUTODOCK = 1; // XXXL"), []);
    assert_eq!(found("dbg!(a);\ntodo!();\nunimplemented!();"), [1, 2, 3]);
    assert_eq!(found("fn todo() {} // dbg!"), []);
}

#[test]
fn commented_out_code_is_caught_and_prose_is_not() {
    let found = |comment: &str| !rules::leftovers(&Source::new("src/log/mod.rs", comment)).is_empty();
    for code in [
        "// let a = b;",
        "    // self.file.sync()?;",
        "// }",
        "// });",
        "// if a == b {",
        "fn f() {} // return 5;",
        "// a = b;",
        "// use std::mem;",
        "// #[inline] fn a();",
    ] {
        assert!(found(code), "{code}");
    }
    for prose in [
        "// The page is pinned; nobody frees it.",
        "// a page that is free (as after a cut) is",
        "// first this;",
        "/// let a = b;",
        "//! let a = b;",
        "// the set {a, b}",
        "let a = \"// let b = c;\";",
        "//",
    ] {
        assert!(!found(prose), "{prose}");
    }
}

#[test]
fn panics_in_the_library_are_caught() {
    let found = |path: &str, text: &str| lines(&rules::panics(&Source::new(path, text)));
    let text = "fn f() {\n    a.unwrap();\n    b.expect(\"b\");\n    panic!();\n}";
    assert_eq!(found("src/log/mod.rs", text), [2, 3, 4]);
    assert_eq!(found("src/log/tests.rs", text), []);
    assert_eq!(found("src/log/tests/crash.rs", text), []);
    assert_eq!(found("crates/cli/src/main.rs", text), []);
    assert_eq!(found("src/log/mod.rs", &format!("#[cfg(test)]\nmod tests {{ {text} }}")), []);
    assert_eq!(found("src/log/mod.rs", &format!("#[test]\n{text}\nfn g() {{ a.unwrap() }}")), [7]);
    assert_eq!(found("src/log/mod.rs", "/// a.unwrap()\nfn f() { a.unwrap_or(1); b.expect_err(); }"), []);
    assert_eq!(found("src/log/mod.rs", "let quote = '\"'; a.unwrap(); let other = '\"';"), [1]);
    assert_eq!(found("src/log/mod.rs", "let raw = r#\"\" .unwrap() \"#; fn f<'a>(b: &'a str) { b.unwrap() }"), [1]);
}

/// A module that its parent declares for tests only is a test, wherever its file is.
#[test]
fn modules_for_tests_are_found_by_their_declaration() {
    let parent = Source::new(
        "src/io/mod.rs",
        "#[cfg(any(test, feature = \"testing\"))]\npub mod simulated;\npub mod posix;\n#[cfg(test)]\nmod inline { }",
    );
    assert_eq!(parent.test_modules(), ["src/io/simulated"]);
    let file = Source::new("src/io/posix.rs", "#[cfg(test)]\nmod helper;");
    assert_eq!(file.test_modules(), ["src/io/posix/helper"]);
    let modules: BTreeSet<String> = parent.test_modules().into_iter().collect();
    for (path, is_test) in [
        ("src/io/simulated.rs", true),
        ("src/io/simulated/disk.rs", true),
        ("src/io/simulated_other.rs", false),
        ("src/io/posix.rs", false),
        ("tests/main.rs", true),
    ] {
        assert_eq!(is_test_path(path, &modules), is_test, "{path}");
    }
}

#[test]
fn files_without_a_description_or_too_long_are_caught() {
    let opening = |text: &str| lines(&rules::opening(&Source::new("src/a.rs", text)));
    assert_eq!(opening("//! What this file is.\n"), []);
    assert_eq!(opening("//!\nfn f() {}"), [1]);
    assert_eq!(opening("//! (being written)\n"), [1]);
    assert_eq!(opening("// What this file is.\n"), [1]);
    assert_eq!(opening(""), [1]);
    let length = |count: usize| lines(&rules::length(&Source::new("src/a.rs", &"\n".repeat(count)), 800));
    assert_eq!(length(800), []);
    assert_eq!(length(801), [801]);
}

#[test]
fn machines_and_registries_are_caught() {
    let found = |path: &str, text: &str| lines(&rules::machine_names(path, text));
    assert_eq!(found("README.md", concat!("see /wo", "rk/main\nand /ho", "me/someone")), [1, 2]);
    assert_eq!(found("README.md", concat!("`/ro", "ot/.cargo`")), [1]);
    assert_eq!(found("README.md", concat!("a frame", "/wo", "rk/ and https://example.org/ho", "me/")), []);
    assert_eq!(found("a.toml", concat!("[sou", "rce.mirror]\nreplace", "-with = \"x\"")), [1, 2]);
    assert_eq!(found("a.yml", concat!("https://index.", "crates.io/x")), [1]);
    let good = "source = \"registry+https://github.com/rust-lang/crates.io-index\"";
    assert_eq!(found("Cargo.lock", good), []);
    assert_eq!(found("Cargo.lock", "source = \"registry+http://10.0.0.1/index\""), [1]);
}
