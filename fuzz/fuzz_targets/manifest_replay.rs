//! Any bytes into `alluvium::parts::fuzz::manifest_replay`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| alluvium::parts::fuzz::manifest_replay(data));
