//! Any bytes into `alluvium::internals::fuzz::filter_page`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| alluvium::internals::fuzz::filter_page(data));
