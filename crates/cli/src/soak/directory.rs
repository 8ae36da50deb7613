//! The directory of a soak: `store`, and beside it `soak.json` (the settings), `board` (counters), `models` (the state
//! at the last opening), `child.err` (standard error of the last child). Any thread; the parent creates it.

use super::Broken;
use super::board::Board;
use super::model::Model;
use super::work::Work;
use crate::failure::Failure;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const SETTINGS: &str = "soak.json";
const MODELS: &str = "models";

/// The directory of a soak.
#[derive(Debug)]
pub struct SoakDirectory {
    path: PathBuf,
    temporary: Option<TempDir>,
}

impl SoakDirectory {
    /// An existing directory, for the child.
    pub fn existing(path: &Path) -> Self {
        Self { path: path.to_path_buf(), temporary: None }
    }

    /// Creates the directory of a soak, or opens the one that the user named. `choose` gets the stored settings, if
    /// any, and returns those to use.
    pub fn make(
        given: Option<&Path>,
        choose: impl FnOnce(Option<Work>) -> Result<Work, Failure>,
    ) -> Result<(Self, Work), Failure> {
        let place = match given {
            Some(path) => Self::existing(path),
            None => {
                let made = TempDir::with_prefix("alluvium-soak-");
                let temporary = made.map_err(|error| Failure::Usage(format!("no temporary directory: {error}")))?;
                Self { path: temporary.path().to_path_buf(), temporary: Some(temporary) }
            }
        };
        let there = place.path.join(SETTINGS).exists();
        let found = if there { Some(place.work().map_err(|Broken(why)| Failure::Usage(why))?) } else { None };
        let work = choose(found)?;
        if !there {
            place.found(&work)?;
        }
        Ok((place, work))
    }

    fn found(&self, work: &Work) -> Result<(), Failure> {
        let failed = |error: std::io::Error| Failure::Usage(format!("{}: {error}", self.path.display()));
        fs::create_dir_all(&self.path).map_err(failed)?;
        if fs::read_dir(&self.path).map_err(failed)?.next().is_some() {
            let why = format!(
                "{} is not empty and is not the directory of a soak; pass an empty directory",
                self.path.display()
            );
            return Err(Failure::Usage(why));
        }
        Board::create(&self.path).map_err(failed)?;
        let models: Vec<Model> = (0..work.threads).map(|writer| Model::new(work, writer)).collect();
        self.save_models(&models).map_err(|Broken(why)| Failure::Usage(why))?;
        // Written last, since it marks the directory as a soak's.
        let text = serde_json::to_string_pretty(work).map_err(|error| Failure::Output(error.into()))?;
        fs::write(self.path.join(SETTINGS), text).map_err(failed)
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The store's directory.
    pub fn store(&self) -> PathBuf {
        self.path.join("store")
    }

    /// Where the child's standard error goes.
    pub fn child_messages(&self) -> PathBuf {
        self.path.join("child.err")
    }

    /// The stored settings.
    pub fn work(&self) -> Result<Work, Broken> {
        let path = self.path.join(SETTINGS);
        let text =
            fs::read_to_string(&path).map_err(|error| Broken(format!("cannot read {}: {error}", path.display())))?;
        serde_json::from_str(&text).map_err(|error| Broken(format!("{}: {error}", path.display())))
    }

    /// The models as last saved.
    pub fn load_models(&self, work: &Work) -> Result<Vec<Model>, Broken> {
        let path = self.path.join(MODELS);
        let bytes = fs::read(&path).map_err(|error| Broken(format!("cannot read {}: {error}", path.display())))?;
        let each = (work.keys_each() as usize + 1) * 8;
        let models: Option<Vec<Model>> =
            (0..).zip(bytes.chunks(each)).map(|(writer, bytes)| Model::decode(writer, bytes)).collect();
        models
            .filter(|models| models.len() as u64 == work.threads && bytes.len().is_multiple_of(each))
            .ok_or_else(|| Broken(format!("{} has {} bytes: not a file of a soak", path.display(), bytes.len())))
    }

    /// Saves the models; if the process dies meanwhile, the earlier ones stay.
    pub fn save_models(&self, models: &[Model]) -> Result<(), Broken> {
        let mut bytes = Vec::new();
        models.iter().for_each(|model| model.encode(&mut bytes));
        let (new, path) = (self.path.join("models.new"), self.path.join(MODELS));
        let saved = fs::write(&new, bytes).and_then(|()| fs::rename(&new, &path));
        saved.map_err(|error| Broken(format!("cannot write {}: {error}", path.display())))
    }

    /// Removes a temporary directory; a user's directory stays.
    pub fn leave(self) -> Result<(), Failure> {
        let Some(temporary) = self.temporary else { return Ok(()) };
        temporary.close().map_err(|error| Failure::Usage(format!("cannot remove {}: {error}", self.path.display())))
    }

    /// Keeps everything, also a temporary directory, and returns its path.
    pub fn keep(self) -> PathBuf {
        if let Some(temporary) = self.temporary {
            let _ = temporary.keep();
        }
        self.path
    }
}
