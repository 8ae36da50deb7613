//! Any bytes into `alluvium::internals::fuzz::stats_file`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| alluvium::internals::fuzz::stats_file(data));
