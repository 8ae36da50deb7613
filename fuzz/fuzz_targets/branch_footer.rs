//! Any bytes into `alluvium::internals::fuzz::branch_footer`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| alluvium::internals::fuzz::branch_footer(data));
