//! `TracingListener`: events as those of the crate `tracing`.

use super::{Event, EventListener};
use ::tracing::{debug, error, info, warn};

/// Passes events to the crate `tracing`, with the target `alluvium`: failures as errors; stalls, a full disk and unfinished work
/// as warnings; their ends and finished tasks as information; what begins for debugging. With the feature `tracing`.
///
/// ```
/// let options = alluvium::Options::new().listener(alluvium::TracingListener);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct TracingListener;

/// The target of all events.
const TARGET: &str = "alluvium";

impl EventListener for TracingListener {
    fn on_event(&self, event: &Event) {
        match event {
            Event::Began(task) => debug!(target: TARGET, kind = %task.kind, bytes = task.bytes_total, "{event}"),
            Event::Ended { task, error: None } => info!(
                target: TARGET,
                kind = %task.kind,
                bytes = task.bytes_total,
                bytes_written = task.bytes_written,
                milliseconds = task.runs_for.as_millis() as u64,
                "{event}"
            ),
            Event::StallEnded { .. } | Event::DiskHasSpace => info!(target: TARGET, "{event}"),
            Event::Ended { error: Some(_), .. }
            | Event::Stalled
            | Event::DiskFull { .. }
            | Event::ChangesLost { .. }
            | Event::Missed { .. } => warn!(target: TARGET, "{event}"),
            Event::Failed { .. } => error!(target: TARGET, "{event}"),
        }
    }
}
