//! Layer 3: filters. They exclude keys without a read of the device.

pub mod maplet;
pub mod maplet_build;
pub mod quotient;

#[cfg(test)]
mod tests;
