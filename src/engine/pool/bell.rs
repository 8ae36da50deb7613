//! How any thread wakes the pool for one store, without a lock that stores share.
//!
//! Each store has a bell: a word with one bit for each lane. Each group of 64 stores has a word with one bit for each
//! store. A thread that wants a lane run sets the lane's bit; if it was not set already, it sets the store's bit and
//! raises the leader's signal. The leader takes the bits of the groups first, then those of the bells.
//!
//! Invariants:
//! 1. A bit of a bell that is set will be taken: the thread that set it also sets the store's bit afterwards, and the
//!    leader looks at the bells of all bits of groups.
//! 2. Every wake-up is a read-modify-write of the bell's word, even if the bit is set already. So the leader's swap
//!    that takes the bit reads from it, and what the waking thread did before happens before the run.
//! 3. A wake-up before the store has a seat is not lost: the pool runs every lane when the store takes its seat. The
//!    swap in `take_seat` comes before any wake-up that could rely on the seat.
//! 4. A bit of a group may be set for a store that has left, or for nothing. The leader then finds no bell, or an empty
//!    one.

use super::lane::Lanes;
use super::signal::Signal;
use crate::util::sync::{Arc, AtomicU8, AtomicU64, OnceLock, Ordering};

/// Stores in a group.
pub(super) const GROUP: usize = 64;

/// The bits of 64 stores.
#[derive(Debug, Default)]
pub(super) struct Group(AtomicU64);

impl Group {
    /// Takes the bits.
    pub(super) fn take(&self) -> u64 {
        self.0.swap(0, Ordering::AcqRel)
    }
}

/// Where a store sits in its pool.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) group: Arc<Group>,
    pub(super) bit: u32,
    pub(super) signal: Arc<Signal>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    wanted: AtomicU8,
    seat: OnceLock<Seat>,
}

impl Bell {
    /// Asks for a run of each of these lanes.
    pub(crate) fn wake(&self, lanes: impl Into<Lanes>) {
        let lanes = lanes.into();
        let before = self.wanted.fetch_or(lanes.0, Ordering::AcqRel);
        if before & lanes.0 == lanes.0 {
            return;
        }
        if let Some(seat) = self.seat.get() {
            seat.group.0.fetch_or(1 << seat.bit, Ordering::AcqRel);
            seat.signal.raise();
        }
    }

    /// Gives the store its seat. Every lane must be run after this.
    pub(super) fn take_seat(&self, seat: Seat) {
        let _ = self.seat.set(seat);
        self.take();
    }

    /// Takes the lanes that are asked for.
    pub(super) fn take(&self) -> Lanes {
        Lanes(self.wanted.swap(0, Ordering::AcqRel))
    }
}
