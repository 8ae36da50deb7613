//! Any bytes into `alluvium::internals::fuzz::log_operations`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| alluvium::internals::fuzz::log_operations(data));
