//! The content of one file against a vector: writes, truncation, holes and reads around the borders of inline content,
//! small files, blocks and chunks.

use crate::support::{CALLER, LAYOUTS, Random, new_fs, setting, small};
use skipfs::check::check;
use skipfs::{Layout, ROOT, SetAttributes, WriteOptions};

const SIZE_MAX: u64 = 800_000;

/// A size near a border.
fn size(random: &mut Random) -> u64 {
    let near = random.pick(&[0, 1000, 4096, 8192, 9000, 20_480, 262_144, 266_240, 524_288, SIZE_MAX]);
    match random.below(3) {
        0 => near,
        1 => near.saturating_sub(random.below(9000)),
        _ => (near + random.below(9000)).min(SIZE_MAX),
    }
}

fn run(layout: Layout, seed: u64) {
    let fs = new_fs(&small(layout));
    let ino = fs.create(ROOT, b"file", 0o644, CALLER).unwrap().ino;
    let (mut random, mut content) = (Random(seed), Vec::new());
    // Some files stay small.
    let max = random.pick(&[2000, 12_000, 40_000, SIZE_MAX, SIZE_MAX]);
    for at in 0..150 {
        let (one, other) = (size(&mut random).min(max), size(&mut random).min(max));
        let (start, end) = (one.min(other), one.max(other).min(one.min(other) + random.pick(&[100, 9000, SIZE_MAX])));
        let context = format!("{layout:?}, seed {seed}, step {at}: {start} to {end} of {}", content.len());
        let (from, to) = (start as usize, end as usize);
        match random.below(8) {
            0..=2 if end > start => {
                let data: Vec<u8> = (start..end).map(|byte| (byte / 3 + at) as u8 | 1).collect();
                assert_eq!(fs.write(ino, start, &data, WriteOptions::default()).unwrap(), data.len(), "{context}");
                content.resize(content.len().max(to), 0);
                content[from..to].copy_from_slice(&data);
            }
            3 => {
                let set = SetAttributes { size: Some(start), ..SetAttributes::default() };
                assert_eq!(fs.setattr(ino, &set).unwrap().size, start, "{context}");
                content.resize(from, 0);
            }
            4 if end > start => {
                let keeps = random.one_in(2);
                let mode = if keeps {
                    libc::FALLOC_FL_KEEP_SIZE | libc::FALLOC_FL_PUNCH_HOLE
                } else {
                    libc::FALLOC_FL_ZERO_RANGE
                };
                fs.fallocate(ino, start, end - start, mode).unwrap();
                if !keeps {
                    content.resize(content.len().max(to), 0);
                }
                let length = content.len();
                content[from.min(length)..to.min(length)].fill(0);
            }
            _ => {
                let found = fs.read(ino, start, to - from).unwrap();
                let expected = &content[from.min(content.len())..to.min(content.len())];
                assert!(found == expected, "{context}: the bytes differ");
            }
        }
    }
    assert!(fs.read(ino, 0, 1 << 20).unwrap() == content, "{layout:?}, seed {seed}: the bytes differ");
    let report = check(fs.store()).unwrap();
    assert!(report.is_sound() && report.bytes == content.len() as u64, "{layout:?}, seed {seed}: {report:#?}");
    fs.unlink(ROOT, b"file").unwrap();
    fs.release(ino).unwrap();
    let report = check(fs.store()).unwrap();
    assert!(report.is_sound() && report.files == 0, "{layout:?}, seed {seed}: {report:#?}");
}

/// `SKIPFS_SEQUENCES` runs more.
#[test]
fn content_is_what_a_vector_has() {
    for seed in 0..setting("SKIPFS_SEQUENCES", 30) {
        for layout in LAYOUTS {
            run(layout, seed);
        }
    }
}
