//! The Membuffer: the nodes that are not in the skiplist yet, partitioned by key. Any thread.

pub(crate) mod boundaries;
pub(crate) mod component;
pub(crate) mod insert_queue;
pub(crate) mod membuffer;
