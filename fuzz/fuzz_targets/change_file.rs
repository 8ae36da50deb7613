//! Any bytes into `alluvium::internals::fuzz::change_file`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| alluvium::internals::fuzz::change_file(data));
