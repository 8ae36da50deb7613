//! Any bytes into `alluvium::internals::fuzz::value_header`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| alluvium::internals::fuzz::value_header(data));
