//! The priority of threads at the processors.

use std::cell::Cell;

/// Added to the niceness of threads that do background tasks. With as many runnable threads as processors and more, a
/// thread of the program gets three times the share of such a thread. On a processor that a thread of the program never
/// leaves, a task gets a quarter of the time.
const TASK_NICENESS: libc::c_int = 5;

/// Lowers the calling thread's priority to that of background tasks. The system lets nobody raise it again, so the
/// thread must do nothing else from then on. Without an effect where the system forbids it.
pub fn lower_priority() {
    // SAFETY: changes nothing but the scheduling of the calling thread (on Linux each thread has its own niceness).
    unsafe { libc::nice(TASK_NICENESS) };
    IS_LOW.set(true);
}

thread_local! {
    static IS_LOW: Cell<bool> = const { Cell::new(false) };
}

/// Whether the calling thread has lowered its priority. Threads that it starts inherit it.
pub(super) fn is_low() -> bool {
    IS_LOW.get()
}
