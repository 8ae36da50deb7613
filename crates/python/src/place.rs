//! The keyspace of a view, a batch or a transaction. Any thread.

use crate::engine::Engine;
use crate::errors::{Failure, Outcome};
use crate::handle::{Handle, Owned};
use alluvium::{Keyspace, KeyspaceOptions, Snapshot};
use std::sync::Arc;

/// A keyspace that was opened.
pub enum Opened {
    /// Of a store that is open for writing.
    Writer(Keyspace),
    /// Of one that is open for reading only: its contents.
    Reader(Snapshot),
}

/// A keyspace. The default one is not kept, so that a closed store holds no memory for it.
#[derive(Clone, Default)]
pub struct Place(Option<Arc<Owned<Opened>>>);

impl Place {
    /// Opens a keyspace, and creates it in a store that is open for writing.
    pub fn open(handle: &Handle, engine: &Engine, name: &str, options: KeyspaceOptions) -> Outcome<Self> {
        let opened = match engine {
            Engine::Writer(db) => Opened::Writer(db.keyspace(name, options)?),
            Engine::Reader(db) => match db.keyspace(name, options)? {
                Some(contents) => Opened::Reader(contents),
                None => {
                    return Err(Failure::Other(format!(
                        "no keyspace {name:?}, and the store is open for reading only"
                    )));
                }
            },
        };
        Ok(Self(Some(Arc::new(handle.own(opened)))))
    }

    /// What was opened; `None` for the default keyspace.
    pub fn opened(&self) -> Option<&Opened> {
        self.0.as_ref().and_then(|owned| owned.get())
    }

    /// The keyspace for batches; `None` for the default one, and if the store is open for reading only, which refuses the
    /// batch then.
    pub fn writer(&self) -> Option<&Keyspace> {
        match self.opened() {
            Some(Opened::Writer(keyspace)) => Some(keyspace),
            Some(Opened::Reader(_)) | None => None,
        }
    }

    /// The same moment in this keyspace.
    pub fn at(&self, moment: &Snapshot) -> Outcome<Snapshot> {
        match self.opened() {
            Some(Opened::Writer(keyspace)) => Ok(moment.within(keyspace)?),
            // Such a store has one moment only.
            Some(Opened::Reader(contents)) => Ok(contents.clone()),
            None => Ok(moment.keyspace("default")?.unwrap_or_else(|| moment.clone())),
        }
    }
}
