//! Gives the shared library the soname of Debian's LevelDB, so that programs linked against that find this library.
//! `nodelete` keeps the library loaded if a program unloads it with a database open, because the database's threads
//! still run its code.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libleveldb.so.1d");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
