//! `mkfs`: makes a file system in a new or empty store.

use super::with_store;
use crate::arguments::Common;
use crate::failure::Failure;
use crate::file_system_arguments::{self as arguments, Mkfs};
use crate::output::Output;
use crate::report::{Report, size};
use alluvium::Error;
use skipfs::format::key;
use skipfs::format::superblock::INLINE_BYTES_MAX;
use skipfs::store::AlluviumStore;
use skipfs::store::Store;
use skipfs::{Layout, Limits, MkfsOptions, SkipFs, Superblock};

/// Makes the file system and says what it is. A store that is refused stays as it is.
pub fn run(common: &Common, mkfs: &Mkfs) -> Result<(), Failure> {
    let common = with_store(common, &mkfs.of)?;
    let options = options(mkfs)?;
    match common.open_to_read() {
        Ok(found) => {
            let keyspaces = found.keyspace_names()?;
            let path = common.directory()?.display();
            if let Some(first) = found.first()? {
                let superblock = found.get(key::superblock())?.filter(|bytes| Superblock::is_one(bytes));
                let what = match superblock {
                    Some(_) => "a file system".to_string(),
                    None => format!("pairs (the first key is \"{}\")", first.0.escape_ascii()),
                };
                return Err(Failure::Usage(format!(
                    "the store at {path} already has {what}; `mkfs` needs an empty one"
                )));
            }
            if let [first, ..] = &keyspaces[..] {
                let text = format!("the store at {path} already has keyspaces ({first:?}); `mkfs` needs an empty one");
                return Err(Failure::Usage(text));
            }
        }
        Err(Failure::Store(Error::NoStore { .. })) => {}
        Err(other) => return Err(other),
    }
    let db = common.open_or_create()?;
    let component = db.stats().disk_component;
    let store = AlluviumStore::of(db, None);
    SkipFs::mkfs(&store, &options)?;
    store.close()?;
    report(&common, &options, component)
}

fn options(mkfs: &Mkfs) -> Result<MkfsOptions, Failure> {
    let default = MkfsOptions::default();
    let in_range = |name: &str, value: Option<u64>, range: std::ops::RangeInclusive<u64>, otherwise: u32| match value {
        None => Ok(otherwise),
        Some(value) if range.contains(&value) => Ok(value as u32),
        Some(value) => {
            let (least, most) = (range.start(), range.end());
            Err(Failure::Usage(format!("{name} is {value}; it can be from {least} to {most}")))
        }
    };
    let inline_max = u64::from(INLINE_BYTES_MAX);
    let up_to = match default.layout {
        Layout::Inline { up_to } => up_to,
        Layout::Items => 0,
    };
    let layout = match (mkfs.layout, mkfs.inline_bytes) {
        (arguments::Layout::Items, None) => Layout::Items,
        (arguments::Layout::Items, Some(_)) => {
            return Err(Failure::Usage("--inline-bytes is for --layout inline".into()));
        }
        (arguments::Layout::Inline, bytes) => {
            Layout::Inline { up_to: in_range("--inline-bytes", bytes, 1..=inline_max, up_to)? }
        }
    };
    let small_max = skipfs::format::CHUNK_BYTES;
    let inline_bytes = match layout {
        Layout::Inline { up_to } => up_to,
        Layout::Items => 0,
    };
    let small_otherwise = default.small_bytes.max(inline_bytes);
    let small_bytes = in_range("--small-bytes", mkfs.small_bytes, 0..=small_max, small_otherwise)?;
    if (1..inline_bytes).contains(&small_bytes) {
        return Err(Failure::Usage(format!(
            "--small-bytes is {small_bytes}, less than the {inline_bytes} of --inline-bytes: no file would be one item; give \
             at least as much, or 0 for none"
        )));
    }
    let limit = |limit: Option<u64>| limit.filter(|limit| *limit > 0);
    let limits = Limits { max_bytes: limit(mkfs.max_bytes), max_inodes: limit(mkfs.max_inodes) };
    Ok(MkfsOptions { layout, small_bytes, limits, ..default })
}

fn report(common: &Common, options: &MkfsOptions, component: &str) -> Result<(), Failure> {
    let path = common.directory()?;
    let (layout, inline_bytes) = match options.layout {
        Layout::Items => ("items", 0),
        Layout::Inline { up_to } => ("inline", up_to),
    };
    if common.json {
        let mut report = Report::new();
        report
            .member("made", path.display().to_string().into())
            .member("component", component.into())
            .member("layout", layout.into())
            .member("inline_bytes", inline_bytes.into())
            .member("small_bytes", options.small_bytes.into())
            .member("max_bytes", options.limits.max_bytes.into())
            .member("max_inodes", options.limits.max_inodes.into());
        return report.print(true);
    }
    let inline = if inline_bytes > 0 { format!(" up to {}", size(inline_bytes.into())) } else { String::new() };
    let small = size(options.small_bytes.into());
    let path = path.display();
    let mut output = Output::new();
    output.line(format!(
        "made a file system at {path}: component {component}, layout {layout}{inline}, one item up to {small}"
    ))?;
    output.finish()
}
