//! The exported symbols of the libraries.

use crate::install::{crate_folder, has, prefix, skip};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The functions of LevelDB 1.23's `leveldb/c.h`.
fn interface() -> BTreeSet<String> {
    fs::read_to_string(crate_folder().join("tests/interface.txt")).unwrap().lines().map(str::to_owned).collect()
}

/// The names that a library defines, according to `nm`.
fn symbols(arguments: &[&str], library: &Path) -> BTreeSet<String> {
    let output = Command::new("nm").args(arguments).arg(library).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let names = text.lines().filter_map(|line| line.split_whitespace().last());
    names.map(|name| name.split('@').next().unwrap_or(name).to_owned()).collect()
}

#[test]
fn the_shared_library_exports_the_interface_and_nothing_else() {
    if !has("nm") {
        return;
    }
    assert_eq!(interface().len(), 68);
    assert_eq!(symbols(&["-D", "--defined-only"], &prefix().join("lib/libleveldb.so.1d")), interface());
    // LevelDB's library exports these and its C++ classes.
    let real = Path::new("/usr/lib/x86_64-linux-gnu/libleveldb.so.1d");
    if real.exists() {
        let mut of_c = symbols(&["-D", "--defined-only"], real);
        of_c.retain(|name| name.starts_with("leveldb_"));
        assert_eq!(of_c, interface());
    } else {
        skip("LevelDB itself is not installed");
    }
}

#[test]
fn the_static_library_has_the_interface() {
    if !has("nm") {
        return;
    }
    let all = symbols(&["--defined-only", "--extern-only"], &prefix().join("lib/libleveldb.a"));
    let missing: Vec<String> = interface().difference(&all).cloned().collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// The soname with which programs that were linked against Debian's LevelDB load the library.
#[test]
fn the_shared_library_has_leveldbs_soname() {
    if !has("readelf") {
        return;
    }
    let output = Command::new("readelf").arg("-d").arg(prefix().join("lib/libleveldb.so")).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let name = text.lines().find(|line| line.contains("SONAME")).unwrap();
    assert!(name.contains("[libleveldb.so.1d]"), "{name}");
}
