//! Any bytes into `alluvium::internals::fuzz::branch_properties`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| alluvium::internals::fuzz::branch_properties(data));
