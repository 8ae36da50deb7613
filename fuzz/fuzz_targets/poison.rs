//! Any bytes into `alluvium::parts::fuzz::poison`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| alluvium::parts::fuzz::poison(data));
