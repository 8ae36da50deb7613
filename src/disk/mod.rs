//! Layer 5: disk components. `trunk` is the STBε-tree; `levels` comes later, beside it.

pub mod trunk;
