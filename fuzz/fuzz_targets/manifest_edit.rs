//! Any bytes into `alluvium::parts::fuzz::manifest_edit`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| alluvium::parts::fuzz::manifest_edit(data));
