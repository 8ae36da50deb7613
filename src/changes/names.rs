//! The names of keyspaces as writes in their order create and drop them. One thread.

use crate::format::catalog::{self, CatalogEntry};
use crate::format::change_file;
use crate::format::log_record::Operations;
use crate::util::sync::Arc;
use crate::util::{KeyspaceId, Kind};
use std::collections::BTreeMap;

/// The names of keyspaces at a number, without the default one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names(BTreeMap<KeyspaceId, Arc<str>>);

impl Names {
    /// These names.
    pub fn new(names: impl IntoIterator<Item = (KeyspaceId, String)>) -> Self {
        Self(names.into_iter().map(|(id, name)| (id, name.into())).collect())
    }

    /// Those in a frame; `None` if its payload is something else.
    pub fn decode(payload: &[u8]) -> Option<Self> {
        let names = change_file::decode_names(payload)?;
        Some(Self(names.into_iter().map(|(id, name)| (id, name.into())).collect()))
    }

    /// The payload of a frame.
    pub fn encode(&self) -> Vec<u8> {
        change_file::encode_names(self.0.iter().map(|(id, name)| (*id, &**name)))
    }

    /// The name of a keyspace.
    pub fn get(&self, id: KeyspaceId) -> Option<&Arc<str>> {
        self.0.get(&id)
    }

    /// Follows what a write, a batch with this body, has done to the catalog.
    pub fn follow(&mut self, body: &[u8]) {
        let operations = Operations::parse(Kind::Batch, body).into_iter().flatten();
        for operation in operations.filter(|operation| operation.keyspace == KeyspaceId::CATALOG) {
            let Some(name) = catalog::name_of(operation.key) else { continue };
            match operation.kind {
                Kind::Put => {
                    if let Some(entry) = CatalogEntry::decode(operation.value) {
                        self.0.insert(entry.id, name.into());
                    }
                }
                _ => self.0.retain(|_, known| **known != *name),
            }
        }
    }
}
