//! Any bytes into `alluvium::parts::fuzz::branch_properties`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| alluvium::parts::fuzz::branch_properties(data));
