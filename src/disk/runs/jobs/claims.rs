//! Claims: what running jobs work on, so that no two jobs do the same work. Each component has its own kind of claim. Any
//! thread; one mutex, held only for a lookup.

use crate::util::sync::{Arc, Mutex};
use std::collections::BTreeMap;

/// What a job works on, from its choice until its outcome is applied.
pub trait Claim {
    /// Whether this claim, which is held, excludes another.
    fn conflicts(&self, other: &Self) -> bool;
}

/// The claims of running jobs.
#[derive(Debug)]
pub struct Claims<C>(Mutex<State<C>>);

#[derive(Debug)]
struct State<C> {
    next: u64,
    claims: BTreeMap<u64, C>,
}

impl<C> Default for Claims<C> {
    fn default() -> Self {
        Self(Mutex::new(State { next: 0, claims: BTreeMap::new() }))
    }
}

impl<C: Claim> Claims<C> {
    /// Makes a claim; `None` if it conflicts with the claim of a running job.
    pub fn take(self: &Arc<Self>, claim: C) -> Option<Arc<ClaimGuard<C>>> {
        let mut state = self.0.lock();
        if state.claims.values().any(|held| held.conflicts(&claim)) {
            return None;
        }
        let id = state.next;
        state.next += 1;
        state.claims.insert(id, claim);
        Some(Arc::new(ClaimGuard { claims: Arc::clone(self), id }))
    }

    /// The number of running jobs.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.0.lock().claims.len()
    }
}

/// Holds a claim until the last reference is dropped.
#[derive(Debug)]
pub struct ClaimGuard<C> {
    claims: Arc<Claims<C>>,
    id: u64,
}

impl<C> Drop for ClaimGuard<C> {
    fn drop(&mut self) {
        self.claims.0.lock().claims.remove(&self.id);
    }
}
