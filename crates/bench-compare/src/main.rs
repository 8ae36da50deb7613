//! Alluvium and its rivals in one run: interleaved, with the same work, the same memory and the same measuring.

fn main() {}
