//! The bandwidth of the device under a directory: bytes per second of sequential reads, past the page cache.

use crate::engine::Result;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// The size of a read, and the alignment of buffers, which is more than any device requires.
const PIECE_BYTES: usize = 1 << 20;
const ALIGNMENT: usize = 4096;
/// Reads in flight: enough to saturate any device with reads of this size.
const THREADS: usize = 8;
const NAME: &str = "device-sample";

/// Bytes per second, measured with a file of about `bytes` that is written into the directory and removed. `None` if
/// the file system cannot read past the page cache.
///
/// # Errors
/// A directory that cannot be created, a file that cannot be written or read.
pub fn sequential_read(directory: &Path, bytes: u64) -> Result<Option<f64>> {
    fs::create_dir_all(directory)?;
    let path = directory.join(NAME);
    let pieces = (bytes / PIECE_BYTES as u64).max(1);
    let measured = write(&path, pieces).and_then(|()| read(&path, pieces));
    let removed = fs::remove_file(&path);
    let measured = measured?;
    removed?;
    Ok(measured)
}

fn write(path: &Path, pieces: u64) -> std::io::Result<()> {
    let mut file = File::create(path)?;
    let mut piece = vec![0; PIECE_BYTES];
    for number in 0..pieces {
        // All different, for devices that compress or deduplicate.
        piece.chunks_exact_mut(8).enumerate().for_each(|(at, word)| {
            let mixed = (number << 20 | at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            word.copy_from_slice(&mixed.to_le_bytes());
        });
        file.write_all(&piece)?;
    }
    file.sync_all()
}

fn read(path: &Path, pieces: u64) -> std::io::Result<Option<f64>> {
    let direct = rustix::fs::OFlags::DIRECT.bits().cast_signed();
    let file = match OpenOptions::new().read(true).custom_flags(direct).open(path) {
        Err(error) if error.kind() == ErrorKind::InvalidInput => return Ok(None),
        opened => opened?,
    };
    let (next, started) = (AtomicU64::new(0), Instant::now());
    std::thread::scope(|scope| {
        let reader = || -> std::io::Result<()> {
            let mut buffer = vec![0; PIECE_BYTES + ALIGNMENT];
            let at = buffer.as_ptr().align_offset(ALIGNMENT);
            loop {
                let piece = next.fetch_add(1, Ordering::Relaxed);
                if piece >= pieces {
                    return Ok(());
                }
                file.read_exact_at(&mut buffer[at..at + PIECE_BYTES], piece * PIECE_BYTES as u64)?;
            }
        };
        let readers: Vec<_> = (0..THREADS).map(|_| scope.spawn(reader)).collect();
        readers.into_iter().try_for_each(|reader| {
            reader.join().unwrap_or_else(|_| Err(std::io::Error::other("a reader of the device panicked")))
        })
    })?;
    Ok(Some((pieces * PIECE_BYTES as u64) as f64 / started.elapsed().as_secs_f64().max(1e-9)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_comes_out_and_the_file_goes() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join("not made yet");
        match sequential_read(&place, 3 << 20).unwrap() {
            Some(rate) => assert!(rate > 1e6 && rate < 1e12, "{rate}"),
            None => println!("skipped: the file system has no direct reads"),
        }
        assert_eq!(fs::read_dir(&place).unwrap().count(), 0);
    }

    #[test]
    fn a_place_that_is_no_directory_is_an_error() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(sequential_read(file.path(), 1 << 20).is_err());
    }
}
