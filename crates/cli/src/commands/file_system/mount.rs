//! `mount`: serves the file system of a store until it is unmounted.

use super::{background, no_file_system, with_store};
use crate::arguments::Common;
use crate::failure::Failure;
use crate::file_system_arguments::{Mount, Switch};
use crate::output::Output;
use skipfs::fuse::{MountOptions, Signals, mounted_at, spawn};
use skipfs::store::AlluviumStore;
use skipfs::{FsError, OpenOptions, SkipFs};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Serves the mount. With `--background` another process does, and this one returns when it is mounted.
pub fn run(common: &Common, mount: &Mount) -> Result<(), Failure> {
    if mount.background {
        return background::start();
    }
    if mount.detached {
        background::leave_session()?;
    }
    // Before the store starts threads.
    let signals = Signals::block()?;
    let mut common = with_store(common, &mount.of)?;
    let directory = mount_point(&mount.directory)?;
    // The process may change its directory.
    if let Ok(path) = common.directory()?.canonicalize() {
        common.db = Some(path);
    }
    let store = common.directory()?;
    let db = common.open_existing()?;
    let open = AlluviumStore::of(db, Some(store.to_owned()));
    let idle = open.idle_content_bytes();
    let options_of_fs =
        OpenOptions { max_bytes: mount.max_bytes, max_inodes: mount.max_inodes, idle_content_bytes: Some(idle) };
    let fs = SkipFs::open_with(open, &options_of_fs).map_err(|error| match error.errno() {
        libc::ENOENT => no_file_system(store),
        _ => error.into(),
    })?;
    if store.starts_with(&directory) {
        let (store, place) = (store.display(), directory.display());
        return Err(Failure::Usage(format!(
            "a mount at {place} would hide its own store, {store}; choose another directory"
        )));
    }
    let mounted = spawn(Arc::new(fs), &directory, &options(mount, store))?;
    let mut output = Output::new();
    let (shown, place) = (store.display(), directory.display());
    if common.json {
        output.line(serde_json::json!({ "mounted": shown.to_string(), "at": place.to_string() }))?;
    } else if mount.detached {
        output.line(format!("mounted {shown} at {place}; unmount with `alluvium unmount {place}`"))?;
    } else {
        output.line(format!("mounted {shown} at {place}; unmount with `alluvium unmount {place}` or Ctrl-C"))?;
    }
    output.finish()?;
    if mount.detached {
        background::leave_terminal()?;
    }
    Ok(mounted.serve(&signals)?)
}

fn options(mount: &Mount, store: &Path) -> MountOptions {
    let default = MountOptions::default();
    MountOptions {
        threads: mount.threads.map_or(default.threads, usize::from),
        write_back_cache: mount.write_back == Switch::On,
        timeout: mount.timeout.unwrap_or(default.timeout),
        allow_other: mount.allow_other,
        read_only: mount.read_only,
        store: Some(store.to_owned()),
        ..default
    }
}

/// The absolute path of the directory, which no SkipFS hides yet.
fn mount_point(directory: &Path) -> Result<PathBuf, Failure> {
    let shown = directory.display();
    let failed = |error: std::io::Error| {
        Failure::Usage(match error.raw_os_error() {
            Some(libc::ENOENT) => format!("{shown} does not exist; create the directory first"),
            Some(libc::ENOTCONN) => {
                format!("{shown} is a mount whose process has died; `alluvium unmount {shown}` removes it")
            }
            _ => format!("cannot mount at {shown}: {error}"),
        })
    };
    if !std::fs::metadata(directory).map_err(failed)?.is_dir() {
        return Err(Failure::Usage(format!("{shown} is not a directory")));
    }
    let absolute = directory.canonicalize().map_err(failed)?;
    match mounted_at(&absolute)? {
        None => Ok(absolute),
        Some(mounted) => {
            let store = mounted.store.map_or_else(String::new, |store| format!(" of the store at {}", store.display()));
            let text = format!("a file system{store} is mounted at {shown}; `alluvium unmount {shown}` unmounts it");
            Err(FsError::with_detail(libc::EBUSY, text).into())
        }
    }
}
