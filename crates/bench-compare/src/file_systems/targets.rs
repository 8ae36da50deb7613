//! The file systems by name, and how each is made and opened.

use super::backing::{InProcess, Passed, Plain, Served};
use super::library::Library;
use super::paths::Paths;
#[cfg(feature = "rocksdb")]
use super::rocks_store::RocksStore;
use super::stores::EngineStore;
use super::{Backing, FileSystem, Requests, passthrough, private_mounts};
use crate::engines::{Setup, ours};
use alluvium_bench::engine::Result;
use alluvium_bench::{Component, LevelKnobs};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use skipfs::fuse::{MountOptions, spawn};
use skipfs::store::{AlluviumStore, Counted};
use skipfs::{Layout, MkfsOptions, SkipFs};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// SkipFS over Alluvium with a component, as in the paper.
const SKIP: &str = "skip";
const LEVELED: &str = "leveled";
const TRUNK: &str = "trunk";
/// SkipFS over RocksDB. The other file systems are compared with it.
pub const ROCKSDB: &str = "rocksdb";
/// No SkipFS: a directory of the file system that the stores are on, which is ext4 on the machines of the comparison.
pub const EXT4: &str = "ext4";

/// A FUSE mount that passes names and attributes on to such a directory: what FUSE itself costs.
pub const PASSTHROUGH: &str = "passthrough";

/// Background threads of an engine where they can be set.
const BACKGROUND_THREADS: usize = crate::compare::BACKGROUND_THREADS;

/// Data for each byte of memory.
const DATA_PER_MEMORY: u64 = 10;
const MEMORY_BYTES_MIN: u64 = 64 << 20;
/// What the drivers need: the program (2 MiB beside pages of files were measured), and postmark's 8 bytes a file, whose mean
/// size is 2,304 bytes. With the 32 MiB of the other benchmarks half of the smallest memory was out of reach for a store that
/// does not read through the page cache.
const HARNESS_BYTES: u64 = 8 << 20;
const HARNESS_DATA: u64 = 288;
/// Also the kernel's pages of the mount, which count towards the limit: with less it was killed.
const MOUNT_HARNESS_BYTES: u64 = 32 << 20;

/// Those with content, in the order of tables.
pub const TARGETS: [&str; 5] = [SKIP, LEVELED, TRUNK, ROCKSDB, EXT4];

/// How requests reach SkipFS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Face {
    /// By calls.
    Library,
    /// By system calls and the kernel's FUSE module.
    Mount,
}

/// Where SkipFS has the content of small files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum LayoutName {
    /// Inode and content are two items, as in the SkipStore paper
    Items,
    /// The content is in the inode's record, up to 4 KiB
    Inline,
}

/// Which file system, and how it is made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// Its name.
    pub name: String,
    /// How requests reach it.
    pub face: Face,
    /// Where content is.
    pub layout: LayoutName,
    /// A directory for it that does not exist yet.
    pub directory: PathBuf,
    /// Memory of the process, page cache included.
    pub memory: u64,
    /// Bytes of files that will be stored.
    pub data_bytes: u64,
}

/// Memory of a process whose files have so many bytes, unless it is named.
pub fn memory_for(data_bytes: u64, named: Option<u64>) -> u64 {
    named.unwrap_or(data_bytes / DATA_PER_MEMORY).max(MEMORY_BYTES_MIN)
}

/// The name of a command's results: those of another face or layout are kept beside them.
pub fn results_name(command: &str, face: Face, layout: LayoutName) -> String {
    let layout = match layout {
        LayoutName::Items => "items",
        LayoutName::Inline => "inline",
    };
    let face = match face {
        Face::Library => "library",
        Face::Mount => "mount",
    };
    format!("{command}-{face}-{layout}")
}

/// The named file systems of those that are `known`; without names all that are built in.
///
/// # Errors
/// A name that none has, or that is not built in.
pub fn select(names: &[String], known: &[&'static str]) -> std::result::Result<Vec<&'static str>, String> {
    let is_built_in = |name: &str| name != ROCKSDB || cfg!(feature = "rocksdb");
    if names.is_empty() {
        return Ok(known.iter().copied().filter(|name| is_built_in(name)).collect());
    }
    let mut taken = Vec::new();
    for name in names {
        let found = known.iter().copied().find(|known| known == name);
        let found = found.ok_or_else(|| format!("there is no file system \"{name}\"; known: {}", known.join(", ")))?;
        if !is_built_in(found) {
            return Err(format!("{name} is not built in; build with --features {name}"));
        }
        if !taken.contains(&found) {
            taken.push(found);
        }
    }
    Ok(taken)
}

/// Makes and opens a file system. A mount is private to the calling thread and those that it starts.
///
/// # Errors
/// A directory that cannot be used; a mount without the permission.
pub fn open(target: &Target) -> Result<FileSystem> {
    let setup = setup(target)?;
    let mount_point = target.directory.join("mount");
    fs::create_dir_all(&mount_point)?;
    let alluvium = |component| AlluviumStore::open(&setup.directory, ours::store_options(component, &setup));
    match target.name.as_str() {
        SKIP => skipfs(alluvium(Component::Skip)?, target, &mount_point),
        LEVELED => skipfs(alluvium(Component::Leveled)?, target, &mount_point),
        TRUNK => skipfs(alluvium(Component::Trunk)?, target, &mount_point),
        #[cfg(feature = "rocksdb")]
        ROCKSDB => skipfs(RocksStore::open(&setup)?, target, &mount_point),
        EXT4 => {
            let requests: Box<dyn Requests> = Box::new(Paths::new(&setup.directory));
            Ok(FileSystem { requests, backing: Box::new(Plain(File::open(&setup.directory)?)) })
        }
        PASSTHROUGH => {
            private_mounts::begin()?;
            let plain = Plain(File::open(&setup.directory)?);
            let session = passthrough::mount(&setup.directory, &mount_point)?;
            Ok(FileSystem {
                requests: Box::new(Paths::new(&mount_point)),
                backing: Box::new(Passed { plain, session }),
            })
        }
        name => Err(format!("there is no file system \"{name}\" in this program").into()),
    }
}

/// The same settings as for the engines of the comparison. Makes the store's directory.
fn setup(target: &Target) -> Result<Setup> {
    let directory = target.directory.join("store");
    fs::create_dir_all(&directory)?;
    let harness_bytes = match target.face {
        Face::Library => HARNESS_BYTES,
        Face::Mount => MOUNT_HARNESS_BYTES,
    } + target.data_bytes / HARNESS_DATA;
    Ok(Setup {
        directory,
        memory_bytes: target.memory,
        write_buffer: None,
        item_cache: None,
        write_limit: None,
        compressed: false,
        component: None,
        levels: LevelKnobs::default(),
        data_bytes: target.data_bytes,
        sync: false,
        background_threads: BACKGROUND_THREADS,
        harness_bytes,
        beside_caches_bytes: harness_bytes,
    })
}

/// RocksDB alone.
#[cfg(all(test, feature = "rocksdb"))]
pub fn open_rocksdb(target: &Target) -> Result<RocksStore> {
    RocksStore::open(&setup(target)?)
}

/// Makes a SkipFS in an empty store.
fn skipfs<S: EngineStore>(store: S, target: &Target, mount_point: &Path) -> Result<FileSystem> {
    let store = Counted::new(store);
    let defaults = MkfsOptions::default();
    let layout = match target.layout {
        LayoutName::Items => Layout::Items,
        LayoutName::Inline => defaults.layout,
    };
    SkipFs::mkfs(&store, &MkfsOptions { layout, ..defaults })?;
    let fs = Arc::new(SkipFs::open(store)?);
    let (requests, backing): (Box<dyn Requests>, Box<dyn Backing>) = match target.face {
        Face::Library => (Box::new(Library::new(Arc::clone(&fs))), Box::new(InProcess(fs))),
        Face::Mount => {
            private_mounts::begin()?;
            let mounted = spawn(fs, mount_point, &MountOptions::default())?;
            (Box::new(Paths::new(mount_point)), Box::new(Served(mounted)))
        }
    };
    Ok(FileSystem { requests, backing })
}
