//! The directories of the disk: the one of the store, and others that storages of the same disk have been made for. Under the
//! disk's lock.

use super::{Disk, Request};
use crate::io::simulated::directory::{Directory, FileId};
use crate::io::simulated::disk::Part;
use crate::io::simulated::random::Random;
use crate::util::sync::Arc;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Result;
use std::path::{Path, PathBuf};

/// The path of the store's directory.
pub(in crate::io::simulated) const FIRST_PATH: &str = "/simulated";

/// Identifies a directory of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::io::simulated) struct DirectoryId(usize);

impl DirectoryId {
    /// The directory of the store.
    pub(in crate::io::simulated) const FIRST: Self = Self(0);
}

/// The directories, by their ids.
#[derive(Clone, Debug)]
pub(in crate::io::simulated) struct Directories {
    first: Directory,
    others: Vec<(PathBuf, Directory)>,
}

impl Directories {
    /// The directory of the store, which exists.
    pub(super) fn new() -> Self {
        Self { first: Directory::new(), others: Vec::new() }
    }

    fn all(&self) -> impl Iterator<Item = &Directory> {
        std::iter::once(&self.first).chain(self.others.iter().map(|(_, directory)| directory))
    }

    fn ids(&self) -> impl Iterator<Item = DirectoryId> + use<> {
        (0..=self.others.len()).map(DirectoryId)
    }

    fn get(&self, id: DirectoryId) -> &Directory {
        id.0.checked_sub(1).map_or(&self.first, |other| &self.others[other].1)
    }

    fn get_mut(&mut self, id: DirectoryId) -> &mut Directory {
        match id.0.checked_sub(1) {
            None => &mut self.first,
            Some(other) => &mut self.others[other].1,
        }
    }

    /// The files that have a name now.
    pub(super) fn named(&self) -> BTreeSet<FileId> {
        self.all().flat_map(|directory| directory.current.values()).copied().collect()
    }

    /// See `Directory::reachable`.
    pub(super) fn reachable(&self) -> BTreeSet<FileId> {
        self.all().flat_map(Directory::reachable).collect()
    }

    /// The directories of which something is not durable.
    pub(super) fn unsettled(&self) -> Vec<DirectoryId> {
        self.ids().filter(|id| !self.get(*id).is_settled()).collect()
    }
}

impl Disk {
    pub(in crate::io::simulated) fn names(&self, directory: DirectoryId) -> &Directory {
        self.names.get(directory)
    }

    pub(in crate::io::simulated) fn names_mut(&mut self, directory: DirectoryId) -> &mut Directory {
        self.note_change();
        Arc::make_mut(&mut self.names).get_mut(directory)
    }

    /// The directory with this path, which does not exist until it is created.
    pub(in crate::io::simulated) fn directory_at(&mut self, path: &Path) -> DirectoryId {
        if path == Path::new(FIRST_PATH) {
            return DirectoryId::FIRST;
        }
        match self.names.others.iter().position(|(known, _)| known == path) {
            Some(at) => DirectoryId(at + 1),
            None => {
                let names = Arc::make_mut(&mut self.names);
                names.others.push((path.to_path_buf(), Directory::missing()));
                DirectoryId(names.others.len())
            }
        }
    }

    pub(in crate::io::simulated) fn id_of(&self, directory: DirectoryId, name: &str) -> FileId {
        self.names(directory).find(name).unwrap_or_else(|_| panic!("there is no file {name:?}"))
    }

    /// A second name for a file, in the directory with this path.
    pub(in crate::io::simulated) fn link(
        &mut self,
        (from, name): (DirectoryId, &str),
        (to, new): (&Path, &str),
    ) -> Result<()> {
        let file = self.names(from).find(name)?;
        let to = self.directory_at(to);
        self.names_mut(to).create(new, file)
    }

    pub(in crate::io::simulated) fn sync_directory(&mut self, request: Request, directory: DirectoryId) -> Result<()> {
        self.names(directory).check_exists()?;
        if self.names(directory).is_settled() {
            return request.permit();
        }
        match request.failure {
            Some((_, Part::None)) => {}
            Some((_, Part::Some)) => {
                let mut random = Random::new(self.random.next());
                self.names_mut(directory).sync_in_part(&mut random);
            }
            Some((_, Part::All)) | None => {
                self.names_mut(directory).sync();
                self.collect();
            }
        }
        request.permit()
    }

    pub(in crate::io::simulated) fn current_image(&mut self, directory: DirectoryId) -> BTreeMap<String, Vec<u8>> {
        self.absorb_all();
        let names = self.names(directory).current.iter();
        names.map(|(name, id)| (name.clone(), self.files[id].current().to_vec())).collect()
    }

    pub(in crate::io::simulated) fn durable_image(&self, directory: DirectoryId) -> BTreeMap<String, Vec<u8>> {
        let names = self.names(directory).durable.iter();
        names.map(|(name, id)| (name.clone(), self.files[id].durable().to_vec())).collect()
    }
}
