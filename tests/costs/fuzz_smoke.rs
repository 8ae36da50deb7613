//! Runs the fuzz targets' entry points on random bytes and on mutated valid bytes, with a stable toolchain; `fuzz/`
//! runs them for longer. It is here because it uses the counting allocator: a decoder's allocations stay in proportion
//! to its input.

use crate::counting::bytes_allocated;
use alluvium::internals::fuzz::{TARGETS, Target};
use alluvium::internals::splitmix64;

/// Bytes that a decoder may allocate for any input: a page of the greatest size, and its copy.
const BYTES_FREE: u64 = 6 << 20;
/// Further bytes that it may allocate for each byte of input.
const BYTES_PER_BYTE: u64 = 256;

/// Changes a few bytes, or the length.
pub fn mutate(bytes: &mut Vec<u8>, random: &mut impl FnMut(u64) -> u64) {
    for _ in 0..=random(4) {
        if bytes.is_empty() {
            bytes.push(random(256) as u8);
        }
        let at = random(bytes.len() as u64) as usize;
        match random(7) {
            0 => bytes[at] ^= 1 << random(8),
            1 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][random(5) as usize],
            2 => bytes.truncate(at),
            3 => bytes.insert(at, random(256) as u8),
            4 => drop(bytes.remove(at)),
            5 => {
                let value = u32::MAX >> random(32);
                let end = (at + 4).min(bytes.len());
                bytes[at..end].copy_from_slice(&value.to_le_bytes()[..end - at]);
            }
            _ => {
                let piece = bytes[at..].to_vec();
                bytes.extend_from_slice(&piece[..piece.len().min(64)]);
            }
        }
    }
}

fn run(target: &Target, bytes: &[u8]) {
    let allocated = bytes_allocated(|| (target.run)(bytes));
    let most = BYTES_FREE + BYTES_PER_BYTE * bytes.len() as u64;
    assert!(allocated <= most, "{}: {allocated} bytes allocated for an input of {}", target.name, bytes.len());
}

#[test]
fn every_decoder_accepts_any_bytes() {
    let inputs = std::env::var("ALLUVIUM_FUZZ_INPUTS").ok().and_then(|text| text.parse().ok()).unwrap_or(15_000_u64);
    for target in &TARGETS {
        let corpus = (target.corpus)();
        assert!(!corpus.is_empty(), "{} has an empty corpus", target.name);
        corpus.iter().for_each(|bytes| run(target, bytes));
        for seed in 0..inputs {
            let mut state = seed;
            let mut random = move |bound: u64| splitmix64(&mut state) % bound;
            let mut bytes = if random(4) == 0 {
                let length = random(600);
                (0..length).map(|_| random(256) as u8).collect()
            } else {
                corpus[random(corpus.len() as u64) as usize].clone()
            };
            mutate(&mut bytes, &mut random);
            // Names the seed, which the message of the panic does not.
            let outcome = std::panic::catch_unwind(|| run(target, &bytes));
            assert!(outcome.is_ok(), "{}: seed {seed}, input {bytes:02x?}", target.name);
        }
    }
}

/// The fuzz crate has a target for each entry point.
#[test]
fn every_entry_point_has_a_fuzz_target() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
    let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
    for target in &TARGETS {
        assert!(folder.join(format!("fuzz_targets/{}.rs", target.name)).exists(), "{}", target.name);
        assert!(manifest.contains(&format!("name = \"{}\"", target.name)), "{}", target.name);
    }
}
