//! Any bytes into `alluvium::internals::fuzz::manifest_replay`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| alluvium::internals::fuzz::manifest_replay(data));
