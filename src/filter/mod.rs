//! Layer 3: filters, which tell without a read of the device that a key is absent.

pub mod quotient;

pub use quotient::{FilterBuilder, may_contain, page_of};

#[cfg(test)]
mod tests;
