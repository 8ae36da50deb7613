//! What a program learns of a store while it runs.

mod event;
mod listener;
#[cfg(feature = "tracing")]
mod tracing;

pub use event::Event;
pub use listener::EventListener;
#[cfg(feature = "tracing")]
pub use tracing::TracingListener;
