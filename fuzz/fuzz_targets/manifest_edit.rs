//! Any bytes into `alluvium::internals::fuzz::manifest_edit`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| alluvium::internals::fuzz::manifest_edit(data));
