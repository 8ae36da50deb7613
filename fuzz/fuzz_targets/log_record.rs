//! Any bytes into `alluvium::internals::fuzz::log_record`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| alluvium::internals::fuzz::log_record(data));
