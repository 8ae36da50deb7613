//! The work on a file system in memory.

use super::*;
use std::collections::BTreeMap;

/// A file system in memory that counts requests.
#[derive(Default)]
struct Fake {
    directories: Vec<String>,
    files: BTreeMap<(usize, String), Vec<u8>>,
    reads: u64,
}

impl Requests for Fake {
    fn make_directory(&mut self, name: &str) -> Result<usize> {
        self.directories.push(name.to_owned());
        Ok(self.directories.len())
    }

    fn remove_directory(&mut self, _: usize) -> Result<()> {
        self.directories.pop().map(|_| ()).ok_or_else(|| "no directory".into())
    }

    fn create(&mut self, directory: usize, name: &str, content: &[u8]) -> Result<()> {
        let former = self.files.insert((directory, name.to_owned()), content.to_vec());
        if former.is_some() { Err("it exists".into()) } else { Ok(()) }
    }

    fn append(&mut self, directory: usize, name: &str, content: &[u8]) -> Result<()> {
        let file = self.files.get_mut(&(directory, name.to_owned())).ok_or("no file")?;
        file.extend_from_slice(content);
        Ok(())
    }

    fn read(&mut self, directory: usize, name: &str, content: &mut [u8]) -> Result<usize> {
        let file = self.files.get(&(directory, name.to_owned())).ok_or("no file")?;
        content[..file.len()].copy_from_slice(file);
        self.reads += 1;
        Ok(file.len())
    }

    fn stat(&mut self, _: usize, _: &str) -> Result<u64> {
        unreachable!("postmark asks for no sizes")
    }

    fn list(&mut self, _: usize) -> Result<u64> {
        unreachable!("postmark reads no directories")
    }

    fn rename(&mut self, _: usize, _: &str, _: &str) -> Result<()> {
        unreachable!("postmark renames nothing")
    }

    fn unlink(&mut self, directory: usize, name: &str) -> Result<()> {
        self.files.remove(&(directory, name.to_owned())).map(|_| ()).ok_or_else(|| "no file".into())
    }
}

const PARAMETERS: Parameters = Parameters { files: 300, transactions: 3000, subdirectories: 0, seed: 42 };

#[test]
fn work_is_that_of_postmark() {
    let (mut fake, mut driver) = (Fake::default(), Driver::new(PARAMETERS));
    driver.make_directories(&mut fake).unwrap();
    let created = driver.create(&mut fake).unwrap();
    let sizes: Vec<u64> = fake.files.values().map(|content| content.len() as u64).collect();
    assert!(sizes.iter().all(|size| (SIZE_MIN..SIZE_MAX).contains(size)), "{sizes:?}");
    assert_eq!((created.operations, created.written), (300, sizes.iter().sum()));
    let mean = created.written / created.operations;
    assert!(mean.abs_diff(MEAN_BYTES) < 200, "{mean}");
    assert!(fake.files.contains_key(&(ROOT_DIRECTORY, "300".to_owned())));

    let appended = driver.transact(&mut fake, 0).unwrap();
    assert_eq!((appended.operations + appended.skipped, appended.reads, fake.reads), (3000, 0, 0));
    // Ten transactions a file leave little space.
    let grown: u64 = fake.files.values().map(|content| content.len() as u64).sum();
    assert_eq!(grown, created.written + appended.written);
    assert!(appended.skipped > 100 && fake.files.values().all(|content| content.len() as u64 <= SIZE_MAX));

    let mixed = driver.transact(&mut fake, 2).unwrap();
    assert!((500..700).contains(&mixed.reads) && mixed.reads == fake.reads, "{mixed:?}");
    assert_eq!(driver.delete(&mut fake).unwrap().operations, 300);
    driver.remove_directories(&mut fake).unwrap();
    assert!(fake.files.is_empty());
}

#[test]
fn files_are_distributed_among_subdirectories() {
    let (mut fake, mut driver) = (Fake::default(), Driver::new(Parameters { subdirectories: 3, ..PARAMETERS }));
    driver.make_directories(&mut fake).unwrap();
    assert_eq!(fake.directories, ["s0", "s1", "s2"]);
    driver.create(&mut fake).unwrap();
    for directory in 1..=3 {
        let files = fake.files.keys().filter(|(found, _)| *found == directory).count();
        assert!((50..150).contains(&files), "{files}");
    }
    driver.delete(&mut fake).unwrap();
    driver.remove_directories(&mut fake).unwrap();
    assert!(fake.files.is_empty() && fake.directories.is_empty());
}

#[test]
fn the_same_seed_gives_the_same_work() {
    let files = |seed| {
        let (mut fake, mut driver) = (Fake::default(), Driver::new(Parameters { seed, ..PARAMETERS }));
        driver.create(&mut fake).unwrap();
        driver.transact(&mut fake, 1).unwrap();
        fake.files
    };
    assert_eq!(files(1), files(1));
    assert_ne!(files(1), files(2));
}
