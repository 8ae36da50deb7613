//! The one binary of integration tests.
