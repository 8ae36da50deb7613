//! How long calls take, in a store with `Options::latencies`.

mod call;
mod histograms;
mod latencies;

pub use call::Call;
pub(crate) use histograms::LatencyHistograms;
pub use latencies::{Latencies, Latency};
