//! Nodes and versions in the arena, and the two structures that find them: the skiplist and the hash index. Any thread.

pub(crate) mod class;
pub(crate) mod hash_index;
pub(crate) mod node;
pub(crate) mod skiplist;
pub(crate) mod version;
