//! Any bytes into `alluvium::parts::fuzz::maplet_page`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| alluvium::parts::fuzz::maplet_page(data));
