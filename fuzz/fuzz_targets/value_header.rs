//! Any bytes into `alluvium::parts::fuzz::value_header`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| alluvium::parts::fuzz::value_header(data));
