//! What lies below each kind of file system.

use super::Backing;
use super::stores::EngineStore;
use alluvium_bench::engine::Result;
use fuser::BackgroundSession;
use skipfs::SkipFs;
use skipfs::fuse::Mounted;
use skipfs::store::{Counted, Counts};
use std::fs::{self, File};
use std::sync::Arc;

/// A SkipFS in this process.
pub struct InProcess<S>(pub Arc<SkipFs<Counted<S>>>);

/// A mounted SkipFS, which threads of this process serve.
pub struct Served<S: EngineStore>(pub Mounted<Counted<S>>);

/// A directory of the file system that the stores are on.
pub struct Plain(pub File);

/// A mount whose requests are passed on to such a directory.
pub struct Passed {
    /// The directory.
    pub plain: Plain,
    /// The mount.
    pub session: BackgroundSession,
}

fn settle<S: EngineStore>(fs: &SkipFs<Counted<S>>) -> Result<()> {
    fs.fsync()?;
    fs.store().store().settle()
}

impl<S: EngineStore> Backing for InProcess<S> {
    fn settle(&self) -> Result<()> {
        settle(&self.0)
    }

    fn counts(&self) -> Option<Counts> {
        Some(self.0.store().counts())
    }

    fn written_bytes(&self) -> Option<u64> {
        Some(self.0.store().store().written_bytes())
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.0.close()?)
    }
}

impl<S: EngineStore> Backing for Served<S> {
    fn settle(&self) -> Result<()> {
        settle(self.0.fs())
    }

    fn counts(&self) -> Option<Counts> {
        Some(self.0.fs().store().counts())
    }

    fn written_bytes(&self) -> Option<u64> {
        Some(self.0.fs().store().store().written_bytes())
    }

    fn close(mut self: Box<Self>) -> Result<()> {
        Ok(self.0.unmount()?)
    }
}

impl Backing for Plain {
    fn settle(&self) -> Result<()> {
        Ok(rustix::fs::syncfs(&self.0)?)
    }

    fn counts(&self) -> Option<Counts> {
        None
    }

    fn written_bytes(&self) -> Option<u64> {
        let text = fs::read_to_string("/proc/self/io").ok()?;
        text.lines().find_map(|line| line.strip_prefix("write_bytes:"))?.trim().parse().ok()
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.settle()
    }
}

impl Backing for Passed {
    fn settle(&self) -> Result<()> {
        self.plain.settle()
    }

    fn counts(&self) -> Option<Counts> {
        None
    }

    fn written_bytes(&self) -> Option<u64> {
        self.plain.written_bytes()
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.session.umount_and_join()?)
    }
}
