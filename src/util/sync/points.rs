//! The points at which the model checker may switch to another thread (feature `model-checking`).

use std::time::Duration;

/// The pause between two checks of a wait outside a model.
pub const PAUSE: Duration = Duration::from_micros(50);

/// Whether the calling thread belongs to a model and may be switched.
pub fn is_scheduled() -> bool {
    // While a failure unwinds, no other thread runs.
    !std::thread::panicking() && shuttle::current::try_get_current_task().is_some()
}

/// A point where another thread may run.
pub fn point() {
    if is_scheduled() {
        // It takes no time: a model has none. Unlike a yield it says nothing about whether this thread can continue.
        shuttle::thread::sleep(Duration::ZERO);
    }
}

/// Lets other threads run first, because the caller waits for one of them. Returns false outside a model.
pub fn give_way() -> bool {
    let scheduled = is_scheduled();
    if scheduled {
        shuttle::thread::yield_now();
    }
    scheduled
}

/// Lets other threads run for a moment.
pub fn pause() {
    if !give_way() {
        std::thread::sleep(PAUSE);
    }
}

/// Tries a lock until it is free. A thread that blocked would block the whole model.
pub fn take<G>(attempt: impl Fn() -> Option<G>) -> G {
    loop {
        point();
        if let Some(guard) = attempt() {
            return guard;
        }
        pause();
    }
}
