//! The shape of small trees, as text.
