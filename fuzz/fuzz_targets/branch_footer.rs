//! Any bytes into `alluvium::parts::fuzz::branch_footer`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| alluvium::parts::fuzz::branch_footer(data));
