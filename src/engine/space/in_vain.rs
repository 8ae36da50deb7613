//! When a write has waited for space in vain. *Otherwise:* each one that follows waits as long. Any thread.

use crate::util::SequenceNumber;
use crate::util::sync::Mutex;

/// The version of the view and the last number at that time: until one of them changes, there is nothing to wait for.
#[derive(Debug, Default)]
pub(crate) struct InVain {
    at: Mutex<Option<(u64, SequenceNumber)>>,
}

impl InVain {
    /// Whether a write has waited in vain in this state.
    pub(crate) fn was_at(&self, state: (u64, SequenceNumber)) -> bool {
        *self.at.lock() == Some(state)
    }

    /// Notes that one has.
    pub(crate) fn note(&self, state: (u64, SequenceNumber)) {
        *self.at.lock() = Some(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_in_vain_counts_until_something_changes() {
        let (in_vain, number) = (InVain::default(), SequenceNumber);
        assert!(!in_vain.was_at((1, number(5))));
        in_vain.note((1, number(5)));
        assert!(in_vain.was_at((1, number(5))) && !in_vain.was_at((2, number(5))) && !in_vain.was_at((1, number(6))));
    }
}
