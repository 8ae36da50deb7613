//! Any bytes into `alluvium::internals::fuzz::poison`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| alluvium::internals::fuzz::poison(data));
