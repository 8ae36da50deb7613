//! Layer 3: filters, which tell without a read of the device that a key is absent.

#[cfg(any(test, feature = "testing"))]
#[allow(dead_code, reason = "the trunk will look into them")]
pub mod maplet;
#[cfg(any(test, feature = "testing"))]
#[allow(dead_code, reason = "the trunk will build them")]
pub mod maplet_build;
pub mod quotient;

#[cfg(test)]
mod tests;
