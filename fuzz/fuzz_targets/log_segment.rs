//! Any bytes into `alluvium::parts::fuzz::log_segment`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| alluvium::parts::fuzz::log_segment(data));
