//! Any bytes into `alluvium::parts::fuzz::log_operations`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| alluvium::parts::fuzz::log_operations(data));
