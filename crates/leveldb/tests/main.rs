//! Tests of the library as C programs see it.

fn main() {}
