//! Any bytes into `alluvium_cli::fuzz::text`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| alluvium_cli::fuzz::text(data));
