//! The header and the pkg-config file.

use crate::install::{crate_folder, has, prefix};
use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

#[test]
fn the_header_declares_the_exported_functions() {
    let header = fs::read_to_string(prefix().join("include/leveldb/c.h")).unwrap();
    let declared: BTreeSet<&str> = header
        .split("ALLUVIUM_EXPORT ")
        .skip(2)
        .filter_map(|declaration| {
            let name = declaration.split('(').next()?;
            name.split([' ', '*']).next_back()
        })
        .collect();
    let interface = fs::read_to_string(crate_folder().join("tests/interface.txt")).unwrap();
    assert_eq!(declared, interface.lines().collect());
}

/// The header compiles alone and without a warning, as C11 and as C++17.
#[test]
fn the_header_is_clean_in_both_languages() {
    for (compiler, language) in [("cc", "c11"), ("c++", "c++17")] {
        if !has(compiler) {
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join(if compiler == "cc" { "alone.c" } else { "alone.cc" });
        fs::write(&source, "#include <leveldb/c.h>\nint main(void) { return leveldb_major_version() - 1; }\n").unwrap();
        let output = Command::new(compiler)
            .args([&format!("-std={language}"), "-Wall", "-Wextra", "-pedantic", "-Werror"])
            .arg("-I")
            .arg(prefix().join("include"))
            .arg("-L")
            .arg(prefix().join("lib"))
            .arg(&source)
            .arg("-o")
            .arg(folder.path().join("alone"))
            .arg("-lleveldb")
            .output()
            .unwrap();
        assert!(output.status.success(), "{language}: {}", String::from_utf8_lossy(&output.stderr));
        let run =
            Command::new(folder.path().join("alone")).env("LD_LIBRARY_PATH", prefix().join("lib")).status().unwrap();
        assert!(run.success(), "{language}");
    }
}

#[test]
fn pkg_config_finds_it() {
    let file = fs::read_to_string(prefix().join("lib/pkgconfig/leveldb.pc")).unwrap();
    assert!(file.contains(&format!("prefix={}\n", prefix().display())), "{file}");
    if !has("pkg-config") {
        return;
    }
    let output = Command::new("pkg-config")
        .args(["--cflags", "--libs", "leveldb"])
        .env("PKG_CONFIG_PATH", prefix().join("lib/pkgconfig"))
        .output()
        .unwrap();
    let flags = String::from_utf8(output.stdout).unwrap();
    assert!(flags.contains(&format!("-I{}/include", prefix().display())) && flags.contains("-lleveldb"), "{flags}");
}
