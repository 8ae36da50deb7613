//! The content of one file against a vector: writes, truncation, holes and reads around the borders of inline content,
//! small files, blocks and chunks.

use crate::support::{CALLER, LAYOUTS, Random, new_fs, setting, small};
use skipfs::check::check;
use skipfs::store::AlluviumStore;
use skipfs::{FilePlace, Layout, ROOT, SeekTo, SetAttributes, SkipFs, WriteOptions};

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

/// Each byte that is not zero is in what `SEEK_DATA` and `SEEK_HOLE` call data from `start` on.
fn check_holes(fs: &SkipFs<AlluviumStore>, ino: u64, start: u64, content: &[u8], context: &str) {
    let size = content.len() as u64;
    let mut at = start;
    while at < size {
        let data = match fs.seek(ino, at, SeekTo::Data) {
            Ok(data) => data,
            Err(error) => {
                assert_eq!(error.errno(), libc::ENXIO, "{context}");
                size
            }
        };
        assert!((at..=size).contains(&data), "{context}: data at {data} from {at} on");
        assert!(content[at as usize..data as usize].iter().all(|byte| *byte == 0), "{context}: not a hole");
        if data == size {
            break;
        }
        at = fs.seek(ino, data, SeekTo::Hole).unwrap();
        assert!(at > data && at <= size, "{context}: a hole at {at} from {data} on");
    }
    for to in [SeekTo::Data, SeekTo::Hole] {
        assert_eq!(fs.seek(ino, size, to).unwrap_err().errno(), libc::ENXIO);
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
        match random.below(10) {
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
            5 if end > start => {
                let target = size(&mut random).min(max);
                let copied = fs.copy_file_range(
                    FilePlace { ino, offset: start },
                    FilePlace { ino, offset: target },
                    end - start,
                );
                let part = content[from.min(content.len())..to.min(content.len())].to_vec();
                if start.abs_diff(target) < part.len() as u64 {
                    assert_eq!(copied.unwrap_err().errno(), libc::EINVAL, "{context}");
                    continue;
                }
                assert_eq!(copied.unwrap(), part.len(), "{context}");
                if !part.is_empty() {
                    let target = target as usize;
                    content.resize(content.len().max(target + part.len()), 0);
                    content[target..target + part.len()].copy_from_slice(&part);
                }
            }
            6 => {
                check_holes(&fs, ino, start, &content, &context);
                // This also compares what is allocated.
                let report = check(fs.store()).unwrap();
                assert!(report.is_sound(), "{context}: {report:#?}");
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
    fs.forget(ino, 1);
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

#[test]
fn holes_are_found() {
    for layout in LAYOUTS {
        let fs = new_fs(&small(layout));
        let ino = fs.create(ROOT, b"file", 0o644, CALLER).unwrap().ino;
        const CHUNK: u64 = 262_144;
        let seek = |from: u64, to: SeekTo| fs.seek(ino, from, to).map_err(|error| error.errno());
        let truncate = |size: u64| {
            fs.setattr(ino, &SetAttributes { size: Some(size), ..SetAttributes::default() }).unwrap();
        };
        truncate(10 * CHUNK);
        assert_eq!((seek(5, SeekTo::Data), seek(5, SeekTo::Hole)), (Err(libc::ENXIO), Ok(5)));
        fs.write(ino, 3 * CHUNK, &vec![1; CHUNK as usize], WriteOptions::default()).unwrap();
        fs.write(ino, 5 * CHUNK + 8192, &[1; 4096], WriteOptions::default()).unwrap();
        let (block, end) = (5 * CHUNK + 8192, 10 * CHUNK);
        for (from, data, hole) in [
            (0, Ok(3 * CHUNK), 0),
            (3 * CHUNK + 7, Ok(3 * CHUNK + 7), 4 * CHUNK),
            (4 * CHUNK, Ok(block), 4 * CHUNK),
            (block + 1, Ok(block + 1), block + 4096),
            (block + 4096, Err(libc::ENXIO), block + 4096),
            (end - 1, Err(libc::ENXIO), end - 1),
        ] {
            assert_eq!((seek(from, SeekTo::Data), seek(from, SeekTo::Hole)), (data, Ok(hole)), "{from}");
        }
        let hole = libc::FALLOC_FL_KEEP_SIZE | libc::FALLOC_FL_PUNCH_HOLE;
        fs.fallocate(ino, 3 * CHUNK + 4096, 4096, hole).unwrap();
        assert_eq!(seek(3 * CHUNK, SeekTo::Hole), Ok(3 * CHUNK + 4096));
        assert_eq!(seek(3 * CHUNK + 4096, SeekTo::Data), Ok(3 * CHUNK + 8192));
        truncate(4 * CHUNK);
        assert_eq!(seek(3 * CHUNK + 8192, SeekTo::Hole), Ok(4 * CHUNK));
    }
}

/// `st_blocks` counts what is kept, in units of 512 bytes.
#[test]
fn holes_are_not_allocated() {
    const CHUNK: u64 = 262_144;
    for layout in LAYOUTS {
        let fs = new_fs(&small(layout));
        let ino = fs.create(ROOT, b"file", 0o644, CALLER).unwrap().ino;
        let blocks = || fs.getattr(ino).unwrap().blocks();
        let write = |offset: u64, length: usize| {
            assert_eq!(fs.write(ino, offset, &vec![1; length], WriteOptions::default()).unwrap(), length);
        };
        let set_size = |size: u64| {
            fs.setattr(ino, &SetAttributes { size: Some(size), ..SetAttributes::default() }).unwrap();
        };
        let hole = |offset: u64, length: u64| {
            fs.fallocate(ino, offset, length, libc::FALLOC_FL_KEEP_SIZE | libc::FALLOC_FL_PUNCH_HOLE).unwrap();
        };
        assert_eq!(blocks(), 0);
        write(0, 1);
        assert_eq!(blocks(), 8, "{layout:?}: a small file has a block");
        set_size(1 << 40);
        assert_eq!(blocks(), 8, "{layout:?}");
        write(1 << 39, 4096);
        write((1 << 39) + 8192, 1);
        assert_eq!(blocks(), 24, "{layout:?}");
        // The same blocks again, and one that lies over two.
        write(1 << 39, 4096);
        write((1 << 39) + 4000, 4192);
        assert_eq!(blocks(), 32, "{layout:?}");
        hole(1 << 39, 4096);
        assert_eq!(blocks(), 24, "{layout:?}");
        set_size(1 << 39);
        assert_eq!(blocks(), 8, "{layout:?}");
        set_size(0);
        assert_eq!(blocks(), 0, "{layout:?}");
        // Without holes, with one of whole chunks and parts, and whole again.
        write(0, 5 * CHUNK as usize);
        assert_eq!(blocks(), 5 * CHUNK / 512, "{layout:?}");
        hole(CHUNK / 2, 3 * CHUNK);
        assert_eq!(blocks(), 2 * CHUNK / 512, "{layout:?}");
        write(0, 4 * CHUNK as usize);
        assert_eq!(blocks(), 5 * CHUNK / 512, "{layout:?}");
        let report = check(fs.store()).unwrap();
        assert!(report.is_sound(), "{layout:?}: {report:#?}");
    }
}

/// Ranges cannot be taken out or put in: `docs/skipfs.md` says why. Nothing changes.
#[test]
fn ranges_are_not_moved() {
    let fs = new_fs(&small(LAYOUTS[1]));
    let ino = fs.create(ROOT, b"file", 0o644, CALLER).unwrap().ino;
    fs.write(ino, 0, &[1; 20_000], WriteOptions::default()).unwrap();
    for mode in [libc::FALLOC_FL_COLLAPSE_RANGE, libc::FALLOC_FL_INSERT_RANGE] {
        assert_eq!(fs.fallocate(ino, 4096, 4096, mode).unwrap_err().errno(), libc::EOPNOTSUPP);
    }
    assert_eq!(fs.read(ino, 0, 30_000).unwrap(), vec![1; 20_000]);
}
