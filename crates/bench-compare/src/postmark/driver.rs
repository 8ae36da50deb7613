//! The work of postmark: what it does to which file, from a seed. One thread.
//!
//! As the program does it:
//!
//! 1. Files are named by their number, from 1 on, and directories `s0`, `s1` and so on. The directory of a file is
//!    random.
//! 2. The content of a file is the beginning of one random text.
//! 3. A transaction picks a random file, and reads it if a number below ten is below the bias. Otherwise it appends from
//!    1 byte to as many as the greatest size permits. A file of this size is left alone, which counts as no operation.
//! 4. Files are deleted in the order of their numbers.

use crate::file_systems::{ROOT_DIRECTORY, Requests};
use crate::rounds::pairs::fill_value;
use alluvium_bench::engine::Result;
use alluvium_bench::random::Random;
use serde::{Deserialize, Serialize};

/// Sizes of new files. The program never makes one of the greatest size.
const SIZE_MIN: u64 = 512;
const SIZE_MAX: u64 = 4096;
/// The mean size of new files.
pub const MEAN_BYTES: u64 = (SIZE_MIN + SIZE_MAX) / 2;
/// The bias is a number of ten.
const BIASES: u64 = 10;

/// How much work there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parameters {
    /// Files.
    pub files: u64,
    /// Transactions of each bias.
    pub transactions: u64,
    /// Subdirectories; 0 for none.
    pub subdirectories: u32,
    /// The seed of all random numbers.
    pub seed: u64,
}

/// What a phase did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Operations: creates, reads and appends, or deletes.
    pub operations: u64,
    /// Reads among them.
    pub reads: u64,
    /// Bytes that were written to files.
    pub written: u64,
    /// Transactions without an operation, because the file had the greatest size.
    pub skipped: u64,
}

#[derive(Clone, Copy, Debug)]
struct File {
    directory: u32,
    size: u16,
}

/// The files as they should be, and the next random numbers.
pub struct Driver {
    parameters: Parameters,
    random: Random,
    files: Vec<File>,
    /// The directories' numbers in the file system.
    directories: Vec<usize>,
    text: Vec<u8>,
    buffer: Vec<u8>,
}

impl Driver {
    /// Before the first phase.
    pub fn new(parameters: Parameters) -> Self {
        let mut text = vec![0; SIZE_MAX as usize];
        fill_value(parameters.seed, &mut text);
        let random = Random::new(parameters.seed, 0);
        let (files, buffer) = (Vec::with_capacity(parameters.files as usize), vec![0; SIZE_MAX as usize]);
        Self { parameters, random, files, directories: vec![ROOT_DIRECTORY], text, buffer }
    }

    /// Makes the directories.
    pub fn make_directories(&mut self, requests: &mut dyn Requests) -> Result<()> {
        if self.parameters.subdirectories > 0 {
            let names = (0..self.parameters.subdirectories).map(|number| format!("s{number}"));
            self.directories = names.map(|name| requests.make_directory(&name)).collect::<Result<_>>()?;
        }
        Ok(())
    }

    /// Creates all files.
    pub fn create(&mut self, requests: &mut dyn Requests) -> Result<Done> {
        let mut done = Done::default();
        for number in 1..=self.parameters.files {
            let size = SIZE_MIN + self.random.below(SIZE_MAX - SIZE_MIN);
            let directory = match self.directories.len() as u64 {
                1 => 0,
                count => self.random.below(count),
            };
            let place = self.directories[directory as usize];
            requests.create(place, &number.to_string(), &self.text[..size as usize])?;
            self.files.push(File { directory: directory as u32, size: size as u16 });
            done.operations += 1;
            done.written += size;
        }
        Ok(done)
    }

    /// Transactions. Of ten, `bias` are reads.
    pub fn transact(&mut self, requests: &mut dyn Requests, bias: u64) -> Result<Done> {
        let mut done = Done::default();
        for _ in 0..self.parameters.transactions {
            let is_read = self.random.below(BIASES) < bias;
            let at = self.random.below(self.files.len() as u64) as usize;
            let File { directory, size } = self.files[at];
            let (directory, name) = (self.directories[directory as usize], (at + 1).to_string());
            let space = SIZE_MAX - u64::from(size);
            if is_read {
                let found = requests.read(directory, &name, &mut self.buffer)?;
                if found != usize::from(size) {
                    return Err(format!("file {name} has {found} bytes instead of {size}").into());
                }
                done.reads += 1;
            } else if space > 0 {
                let more = 1 + self.random.below(space);
                requests.append(directory, &name, &self.text[..more as usize])?;
                self.files[at].size += more as u16;
                done.written += more;
            } else {
                done.skipped += 1;
                continue;
            }
            done.operations += 1;
        }
        Ok(done)
    }

    /// Deletes all files.
    pub fn delete(&mut self, requests: &mut dyn Requests) -> Result<Done> {
        for (at, file) in self.files.iter().enumerate() {
            requests.unlink(self.directories[file.directory as usize], &(at + 1).to_string())?;
        }
        let operations = self.files.len() as u64;
        self.files.clear();
        Ok(Done { operations, ..Done::default() })
    }

    /// Removes the directories, which are empty.
    pub fn remove_directories(&mut self, requests: &mut dyn Requests) -> Result<()> {
        let made = self.directories.iter().filter(|directory| **directory != ROOT_DIRECTORY);
        made.copied().try_for_each(|directory| requests.remove_directory(directory))
    }
}

#[cfg(test)]
mod tests;
