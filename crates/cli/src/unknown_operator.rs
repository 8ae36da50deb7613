//! A stand-in for the merge operator of another program. With it the command line opens a store or a keyspace whose operator
//! it does not have: everything works but operands, which it refuses and leaves as they are.

use alluvium::{Error, MergeOperator};
use std::sync::Arc;

/// See the module.
struct UnknownOperator {
    name: String,
}

impl MergeOperator for UnknownOperator {
    fn name(&self) -> &str {
        &self.name
    }

    fn full_merge(&self, _: &[u8], _: Option<&[u8]>, _: &[&[u8]], _: &mut Vec<u8>) -> Result<(), String> {
        Err("the command line does not have this operator".to_owned())
    }

    fn check(&self, _: &[u8], _: &[u8]) -> Result<(), String> {
        Err(format!("the command line does not have the operator {:?}; use the program that has it", self.name))
    }
}

/// A stand-in for the operator without which an opening failed with this error; `None` if it failed for another reason.
pub fn stand_in(error: &Error) -> Option<Arc<dyn MergeOperator>> {
    match error {
        Error::Mismatch { what: "merge operator", stored, asked, .. }
        | Error::KeyspaceMismatch { what: "merge operator", stored, asked, .. }
            if asked.is_empty() =>
        {
            Some(Arc::new(UnknownOperator { name: stored.clone() }))
        }
        _ => None,
    }
}
