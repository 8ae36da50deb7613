//! Any bytes into `alluvium_cli::fuzz::tsv`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| alluvium_cli::fuzz::tsv(data));
