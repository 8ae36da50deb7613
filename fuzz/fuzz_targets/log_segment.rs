//! Any bytes into `alluvium::internals::fuzz::log_segment`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| alluvium::internals::fuzz::log_segment(data));
