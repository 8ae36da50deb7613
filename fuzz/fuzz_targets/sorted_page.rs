//! Any bytes into `alluvium::internals::fuzz::sorted_page`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| alluvium::internals::fuzz::sorted_page(data));
