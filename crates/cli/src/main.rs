//! The command line of Alluvium.
fn main() {}
