//! Any bytes into `alluvium::parts::fuzz::filter_page`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| alluvium::parts::fuzz::filter_page(data));
