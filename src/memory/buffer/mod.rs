//! The Membuffer: the nodes that are not in the skiplist yet, by partitions of the keys.

pub(crate) mod boundaries;
pub(crate) mod component;
pub(crate) mod insert_queue;
pub(crate) mod membuffer;
