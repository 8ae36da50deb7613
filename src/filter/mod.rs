//! Layer 3: filters, which tell without a read of the device that a key is absent.

pub mod maplet;
pub mod maplet_build;
pub mod quotient;

#[cfg(test)]
mod tests;
