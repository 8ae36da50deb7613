//! Any bytes into `alluvium::parts::fuzz::stats_file`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| alluvium::parts::fuzz::stats_file(data));
