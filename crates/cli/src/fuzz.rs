//! Fuzzing entry points for the command line's input (feature `testing`): pairs in each format, and text arguments.
//! Called by the fuzz targets (`fuzz/`) and by the smoke test below. Single-threaded.

use crate::bytes;
use crate::input::{Format, Input, InputError, Reading};
use crate::output::PairForm;
use std::io::Cursor;

/// Reads pairs from TSV, writes them and reads them again.
pub fn tsv(data: &[u8]) {
    for reading in [Reading::default(), Reading { hex: true, ..Reading::default() }] {
        pairs(Format::Tsv, reading, if reading.hex { PairForm::Hex } else { PairForm::Escaped }, data);
    }
    pairs_only(Format::Tsv, Reading { literal: true, ..Reading::default() }, data);
}

/// The same for CSV.
pub fn csv(data: &[u8]) {
    for hex in [false, true] {
        pairs(Format::Csv, Reading { hex, ..Reading::default() }, PairForm::Csv { hex }, data);
    }
    pairs_only(Format::Csv, Reading { header: true, ..Reading::default() }, data);
}

/// The same for JSON Lines.
pub fn jsonl(data: &[u8]) {
    pairs(Format::Jsonl, Reading::default(), PairForm::Json { hex: false }, data);
}

/// Escapes, hexadecimal, sizes.
pub fn text(data: &[u8]) {
    let mut escaped = Vec::new();
    bytes::escape_into(data, &mut escaped);
    assert_eq!(bytes::unescape(&escaped).as_deref(), Ok(data));
    assert_eq!(bytes::from_hex(bytes::hex(data).as_bytes()).as_deref(), Ok(data));
    if let Ok(found) = bytes::unescape(data) {
        assert!(found.len() <= data.len());
    }
    if let Ok(found) = bytes::from_hex(data) {
        assert_eq!(found.len() * 2, data.len());
    }
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = bytes::parse_size(text);
    }
}

fn pairs_only(format: Format, reading: Reading, data: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let reader = Box::new(Cursor::new(data.to_vec()));
    let input = Input { name: "fuzzed".to_string(), format, reader, length: None };
    let mut found = Vec::new();
    for (count, pair) in input.pairs(reading, |reader| reader).enumerate() {
        assert!(count <= data.len(), "more pairs than bytes");
        match pair {
            Ok(pair) => found.push((pair.key, pair.value)),
            Err(InputError::Bad { line, .. }) => assert!(line <= data.len() as u64 + 1),
            Err(InputError::Io { source, .. }) => unreachable!("reading from memory cannot fail: {source}"),
        }
    }
    found
}

fn pairs(format: Format, reading: Reading, form: PairForm, data: &[u8]) {
    let found = pairs_only(format, reading, data);
    let mut written = Vec::new();
    found.iter().for_each(|(key, value)| form.append(key, value, &mut written));
    assert_eq!(pairs_only(format, reading, &written), found, "the pairs do not round-trip");
}

#[cfg(test)]
mod tests {
    type Target = (&'static str, fn(&[u8]), &'static [u8]);

    const TARGETS: [Target; 4] = [
        ("tsv", super::tsv, b"key\tvalue\n\\x00\\t\t\\\\\r\n6b6579\t00ff\n"),
        ("csv", super::csv, b"key,value\n\"a \"\"b\"\"\",\"c\nd\"\n6b6579,00ff\n"),
        ("jsonl", super::jsonl, b"{\"key\":\"a\\u0000\",\"value_hex\":\"00ff\"}\n{\"key\":\"b\",\"value\":\"\"}\n"),
        ("text", super::text, b"\\x41 64M 00ff \\t"),
    ];

    #[test]
    fn arbitrary_bytes_are_parsed_or_rejected() {
        for (name, run, corpus) in TARGETS {
            run(corpus);
            for seed in 0..2000_u64 {
                let mut state = seed;
                let mut random = move |bound: u64| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    (state >> 33) % bound
                };
                let mut bytes = corpus.to_vec();
                for _ in 0..=random(6) {
                    let at = random(bytes.len() as u64 + 1) as usize;
                    match random(4) {
                        0 => bytes.insert(at, random(256) as u8),
                        1 => bytes.insert(at, b"\t\n\r\",\\{}:x0"[random(11) as usize]),
                        2 if at < bytes.len() => drop(bytes.remove(at)),
                        _ => bytes.extend_from_within(at.min(20)..at),
                    }
                }
                let outcome = std::panic::catch_unwind(|| run(&bytes));
                assert!(outcome.is_ok(), "{name}: seed {seed}, input {:?}", String::from_utf8_lossy(&bytes));
            }
        }
    }
}
