//! Tests of each format with valid, invalid and hostile lines.

use super::{Format, Input, InputError, Pair, Reading};
use crate::output::PairForm;
use std::io::{self, Read};

fn read(format: Format, reading: Reading, text: &[u8]) -> Vec<Result<Pair, InputError>> {
    let reader = Box::new(io::Cursor::new(text.to_vec()));
    Input { name: "in".to_string(), format, reader, length: None }.pairs(reading, |reader| reader).collect()
}

fn pairs(format: Format, reading: Reading, text: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    read(format, reading, text).into_iter().map(|pair| pair.map(|p| (p.key, p.value)).unwrap()).collect()
}

fn messages(format: Format, reading: Reading, text: &[u8]) -> Vec<String> {
    read(format, reading, text).into_iter().filter_map(|pair| pair.err().map(|e| e.to_string())).collect()
}

fn pair(key: &str, value: &str) -> (Vec<u8>, Vec<u8>) {
    (key.as_bytes().to_vec(), value.as_bytes().to_vec())
}

#[test]
fn each_format_reads_its_pairs() {
    let plain = Reading::default();
    assert_eq!(
        pairs(Format::Tsv, plain, b"a\t1\r\n\nb\\t\t\\x41\\\\\nc\t"),
        [pair("a", "1"), pair("b\t", "A\\"), pair("c", "")]
    );
    assert_eq!(
        pairs(Format::Csv, plain, b"a,1\r\n\"b,\"\"\",\"x\ny\"\n\nc,\n"),
        [pair("a", "1"), pair("b,\"", "x\ny"), pair("c", "")]
    );
    assert_eq!(
        pairs(
            Format::Jsonl,
            plain,
            b"{\"key\":\"a\\n\",\"value\":\"1\"}\n  \n{ \"value_hex\" : \"42\", \"key_hex\":\"41\"}"
        ),
        [pair("a\n", "1"), pair("A", "B")]
    );
}

#[test]
fn hex_literal_and_header_options_change_parsing() {
    let hex = Reading { hex: true, ..Reading::default() };
    assert_eq!(pairs(Format::Tsv, hex, b"61\t31\n"), [pair("a", "1")]);
    assert_eq!(pairs(Format::Csv, hex, b"61,31\n"), [pair("a", "1")]);
    let literal = Reading { literal: true, ..Reading::default() };
    assert_eq!(pairs(Format::Tsv, literal, b"C:\\x\t\\n\n"), [pair("C:\\x", "\\n")]);
    let header = Reading { header: true, ..Reading::default() };
    assert_eq!(pairs(Format::Csv, header, b"key,value\na,1\n"), [pair("a", "1")]);
}

#[test]
fn an_error_names_its_line_and_reading_continues_after_it() {
    let plain = Reading::default();
    let text = b"a\t1\nb\nc\t\\q\nd\t1\t2\ne\t5\n";
    assert_eq!(
        messages(Format::Tsv, plain, text),
        [
            "in:2: expected KEY TAB VALUE, found no TAB",
            "in:3: in the value: expected \\\\ \\t \\n \\r or \\xNN after a backslash",
            "in:4: expected KEY TAB VALUE, found 2 TABs (one in a value is written \\t)",
        ]
    );
    assert_eq!(read(Format::Tsv, plain, text).into_iter().flatten().count(), 2);

    let text = b"a,1\nb\n\"c\nc\",3,4\nd,4\n";
    assert_eq!(
        messages(Format::Csv, plain, text),
        ["in:2: expected 2 columns, found 1", "in:3: expected 2 columns, found 3"]
    );
    assert_eq!(read(Format::Csv, plain, text).into_iter().flatten().count(), 2);

    let text = b"{\"key\":\"a\",\"value\":1}\n{\"key\":\"a\"}\n{\"key\":\"a\",\"key_hex\":\"61\",\"value\":\"\"}\n[]\n\xff\n{\"key\":\"a\",\"value_hex\":\"0\"}\n{\"kee\":\"a\",\"value\":\"\"}\n{\"key\":\"a\",\"value\":\"\"}";
    let bad = messages(Format::Jsonl, plain, text);
    assert_eq!(bad.len(), 7, "{bad:#?}");
    for (index, message) in bad.iter().enumerate() {
        assert!(message.starts_with(&format!("in:{}: ", index + 1)), "{message}");
        assert!(message.contains("expected") && message.contains("found"), "{message}");
    }
    assert_eq!(read(Format::Jsonl, plain, text).into_iter().flatten().count(), 1);
}

/// Every output format can be read back, for arbitrary bytes.
#[test]
fn every_output_format_can_be_read_back() {
    let seed = std::env::var("SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(0x0a11_u64);
    println!("SEED={seed}");
    let mut state = seed;
    let mut random = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    let special = b"\t\n\r\\\"',\0\xff\xef\xbb\xbf\x7fa0 \xc3\xa9{}";
    for _ in 0..2000 {
        let mut written = Vec::new();
        for _ in 0..1 + random() % 4 {
            let mut bytes = |least: u64| -> Vec<u8> {
                (0..least + random() % 6).map(|_| special[random() as usize % special.len()]).collect()
            };
            written.push((bytes(1), bytes(0)));
        }
        for (form, format, hex) in [
            (PairForm::Escaped, Format::Tsv, false),
            (PairForm::Hex, Format::Tsv, true),
            (PairForm::Json { hex: false }, Format::Jsonl, false),
            (PairForm::Json { hex: true }, Format::Jsonl, true),
            (PairForm::Csv { hex: false }, Format::Csv, false),
            (PairForm::Csv { hex: true }, Format::Csv, true),
        ] {
            let mut text = Vec::new();
            written.iter().for_each(|(key, value)| form.append(key, value, &mut text));
            let reading = Reading { hex, ..Reading::default() };
            assert_eq!(pairs(format, reading, &text), written, "SEED={seed} {form:?} {text:?}");
        }
    }
}

#[test]
fn garbage_gives_errors_and_ends() {
    const ALPHABET: &[u8] = b"{}\":,\\\t\n\rkeyvalu_hx01\xff\0";
    let mut state = 7_u64;
    for _ in 0..2000 {
        let text: Vec<u8> = (0..64)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                ALPHABET[(state >> 40) as usize % ALPHABET.len()]
            })
            .collect();
        for format in [Format::Tsv, Format::Csv, Format::Jsonl] {
            assert!(read(format, Reading::default(), &text).len() <= text.len() + 1);
        }
    }
}

/// A reader that fails after its first bytes.
struct Failing(Option<&'static [u8]>);

impl Read for Failing {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.0.take().ok_or_else(|| io::Error::other("unplugged"))?;
        buffer[..bytes.len()].copy_from_slice(bytes);
        Ok(bytes.len())
    }
}

#[test]
fn a_failed_read_is_one_error_and_ends_the_input() {
    for (format, first) in [
        (Format::Tsv, &b"a\t1\nb"[..]),
        (Format::Csv, b"a,1\nb"),
        (Format::Jsonl, b"{\"key\":\"a\",\"value\":\"1\"}\n{"),
    ] {
        let input = Input { name: "in".to_string(), format, reader: Box::new(Failing(Some(first))), length: None };
        let found: Vec<_> = input.pairs(Reading::default(), |reader| reader).collect();
        assert_eq!(found.len(), 2, "{format:?}");
        assert!(found[0].is_ok());
        assert_eq!(found[1].as_ref().unwrap_err().to_string(), "cannot read in: unplugged");
    }
}
