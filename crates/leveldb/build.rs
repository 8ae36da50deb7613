//! Gives the shared library the soname of Debian's LevelDB, so that a program that was linked against that finds this one; and keeps it loaded
//! where a program unloads it with a database open, whose threads still run in it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libleveldb.so.1d");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
