//! The merge operators of a store. Any thread.

use super::MergeOperator;
use crate::util::KeyspaceId;
use crate::util::sync::{Arc, KeyspaceMap};

/// The merge operator of each keyspace. Those of other keyspaces than the default one are added when they are known.
#[derive(Debug, Default)]
pub struct MergeOperators {
    default: Option<Arc<dyn MergeOperator>>,
    others: KeyspaceMap<Arc<dyn MergeOperator>>,
}

impl MergeOperators {
    /// With this operator for the default keyspace.
    pub fn new(default: Option<Arc<dyn MergeOperator>>) -> Arc<Self> {
        Arc::new(Self { default, others: KeyspaceMap::default() })
    }

    /// Calls `f` with the operator of a keyspace, `None` if it has none or it is not known.
    #[inline]
    pub fn with<R>(&self, keyspace: KeyspaceId, f: impl FnOnce(Option<&dyn MergeOperator>) -> R) -> R {
        if keyspace == KeyspaceId::DEFAULT {
            f(self.default.as_deref())
        } else {
            self.others.with(keyspace, |operator| f(operator.map(|operator| &**operator)))
        }
    }

    /// The operator of a keyspace, `None` if it has none or it is not known.
    pub fn get(&self, keyspace: KeyspaceId) -> Option<Arc<dyn MergeOperator>> {
        if keyspace == KeyspaceId::DEFAULT { self.default.clone() } else { self.others.get(keyspace) }
    }

    /// Adds the operator of a keyspace, which is not the default one.
    pub fn add(&self, keyspace: KeyspaceId, operator: Arc<dyn MergeOperator>) {
        debug_assert_ne!(keyspace, KeyspaceId::DEFAULT, "its operator does not change");
        self.others.insert(keyspace, operator);
    }
}
