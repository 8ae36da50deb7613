//! Layer 5: disk components. `trunk` is the STBε-tree; `levels` comes later, beside it.
//!
//! The seam between the store and a disk component (cLSM §2 keeps its disk component behind one as well) is the public
//! functions of `trunk`: a component is immutable trees, and outcomes of work that turn one tree into the next. The store
//! owns when that happens: it logs the edit, publishes the tree and only then lets go of what the tree no longer uses.

pub mod trunk;
