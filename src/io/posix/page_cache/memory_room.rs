//! How much memory is left for the system's page cache, which decides whether files are read through it. Any thread.
//!
//! The page cache of what a process reads counts towards the limits of its control groups. At a limit the kernel takes
//! pages back in the context of whoever needs one, a writer for instance, and kills if it finds none. So reads stop
//! filling the page cache before a limit is reached. On a machine without such limits the kernel takes back what was
//! not used for long, in the background, and what it could take back counts as room.
//!
//! Invariants:
//! 1. Between two looks at the memory, at most half of the room that the first one found is given away. Others use
//!    memory, too.
//! 2. The memory is looked at again after `INTERVAL`, and after `INTERVAL_MIN` if what it gave is used up. So changed
//!    limits are noticed, and looking costs little. One thread looks at a time; the others use what was found last.
//! 3. The numbers are hints, so relaxed accesses are enough.

use crate::io::memory::control_group::{ControlGroups, GroupMemory};
use crate::io::memory::machine::MachineMemory;
use crate::io::{Clock, SystemClock};
use crate::util::sync::{Arc, AtomicBool, AtomicU64, Mutex, OnceLock, Ordering};
use std::fmt;
use std::time::Duration;

/// The longest time between two looks, while there are reads that miss.
const INTERVAL: Duration = Duration::from_secs(1);
/// The shortest.
const INTERVAL_MIN: Duration = Duration::from_millis(50);
/// With less than this to give away, memory counts as full, and is looked at once an `INTERVAL`.
const GRANT_MIN: u64 = 1 << 20;
/// The part of a group's limit that stays free: for writers, other programs, and what happens between two looks.
const GROUP_RESERVE_PART: u64 = 8;
const GROUP_RESERVE_MIN: u64 = 16 << 20;
/// The part of the machine's memory that must be free or easy to take back.
const MACHINE_RESERVE_PART: u64 = 16;

/// Room for page cache, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    /// What may be added now.
    pub(crate) fill: u64,
    /// What the page cache could hold if only this store used it.
    pub(crate) capacity: u64,
}

impl Room {
    /// No room: reads are direct.
    const NONE: Self = Self { fill: 0, capacity: 0 };

    /// The rule: the least room that the machine and each group leave. A machine whose memory is unknown leaves none.
    pub(crate) fn of(machine: Option<MachineMemory>, groups: &[GroupMemory]) -> Self {
        let Some(MachineMemory { total, available }) = machine else { return Self::NONE };
        let free = available.saturating_sub(total / MACHINE_RESERVE_PART);
        let mut room = Self { fill: free, capacity: free };
        for GroupMemory { limit, usage, cached } in groups {
            let reserve = (limit / GROUP_RESERVE_PART).max(GROUP_RESERVE_MIN);
            let usable = limit.saturating_sub(reserve);
            room.fill = room.fill.min(usable.saturating_sub(*usage));
            room.capacity = room.capacity.min(usable.saturating_sub(usage.saturating_sub(*cached)));
        }
        room
    }

    /// That of this process now.
    fn now(groups: &ControlGroups) -> Self {
        Self::of(MachineMemory::now(), &groups.memory())
    }
}

/// Gives room to reads. See the module.
pub(crate) struct MemoryRoom {
    look: Box<dyn Fn() -> Room + Send + Sync>,
    clock: Arc<dyn Clock>,
    looking: Mutex<()>,
    /// What may still be given away before the next look.
    left: AtomicU64,
    capacity: AtomicU64,
    /// When the memory was looked at last, in nanoseconds of the clock plus one; 0 if never.
    looked: AtomicU64,
    /// Whether that look found next to nothing.
    full: AtomicBool,
}

impl MemoryRoom {
    /// The room of this process, shared by all its stores.
    pub(crate) fn of_this_process() -> Arc<Self> {
        static ROOM: OnceLock<Arc<MemoryRoom>> = OnceLock::new();
        Arc::clone(ROOM.get_or_init(|| {
            let groups = ControlGroups::of_this_process();
            Arc::new(Self::new(Arc::new(SystemClock), move || Room::now(&groups)))
        }))
    }

    /// Room that `look` finds.
    pub(crate) fn new(clock: Arc<dyn Clock>, look: impl Fn() -> Room + Send + Sync + 'static) -> Self {
        Self {
            look: Box::new(look),
            clock,
            looking: Mutex::new(()),
            left: AtomicU64::new(0),
            capacity: AtomicU64::new(0),
            looked: AtomicU64::new(0),
            full: AtomicBool::new(false),
        }
    }

    /// Whether this many bytes may be read into the page cache. If so, they count as used until the next look.
    pub(crate) fn claim(&self, bytes: u64) -> bool {
        self.look_if_due(bytes);
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes)).is_ok()
    }

    /// Whether `claim` would succeed now.
    pub(crate) fn has(&self, bytes: u64) -> bool {
        self.look_if_due(bytes);
        self.left.load(Ordering::Relaxed) >= bytes
    }

    /// Whether files of this size would fit into the page cache, with a quarter to spare.
    pub(crate) fn could_hold(&self, bytes: u64) -> bool {
        self.look_if_due(0);
        bytes <= self.capacity.load(Ordering::Relaxed) / 4 * 3
    }

    fn look_if_due(&self, wanted: u64) {
        let now = self.clock.now();
        let is_due = || {
            let Some(looked) = self.looked.load(Ordering::Relaxed).checked_sub(1) else { return true };
            let age = now.saturating_sub(Duration::from_nanos(looked));
            let is_used_up = self.left.load(Ordering::Relaxed) < wanted && !self.full.load(Ordering::Relaxed);
            age >= if is_used_up { INTERVAL_MIN } else { INTERVAL }
        };
        if !is_due() {
            return;
        }
        let Some(_looking) = self.looking.try_lock() else { return };
        // Another thread may have looked just before.
        if !is_due() {
            return;
        }
        let Room { fill, capacity } = (self.look)();
        let grant = if fill / 2 < GRANT_MIN { 0 } else { fill / 2 };
        self.left.store(grant, Ordering::Relaxed);
        self.capacity.store(capacity, Ordering::Relaxed);
        self.full.store(grant == 0, Ordering::Relaxed);
        self.looked.store(u64::try_from(now.as_nanos()).unwrap_or(u64::MAX - 1) + 1, Ordering::Relaxed);
    }
}

impl fmt::Debug for MemoryRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryRoom").field("left", &self.left).field("capacity", &self.capacity).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const MACHINE: MachineMemory = MachineMemory { total: 16 << 30, available: 9 << 30 };

    fn group(limit: u64, usage: u64, cached: u64) -> GroupMemory {
        GroupMemory { limit: limit * MIB, usage: usage * MIB, cached: cached * MIB }
    }

    #[test]
    fn without_groups_the_machine_decides() {
        assert_eq!(Room::of(Some(MACHINE), &[]), Room { fill: 8 << 30, capacity: 8 << 30 });
        let full = MachineMemory { available: 1 << 30, ..MACHINE };
        assert_eq!(Room::of(Some(full), &[]).fill, 0);
        assert_eq!(Room::of(None, &[]), Room::NONE);
    }

    #[test]
    fn an_eighth_of_a_limit_stays_free() {
        assert_eq!(Room::of(Some(MACHINE), &[group(512, 100, 20)]), Room { fill: 348 * MIB, capacity: 368 * MIB });
        // Page cache of one's own fills the group, and more would need the reserve.
        assert_eq!(Room::of(Some(MACHINE), &[group(512, 450, 300)]), Room { fill: 0, capacity: 298 * MIB });
        // A small group keeps 16 MiB.
        assert_eq!(Room::of(Some(MACHINE), &[group(64, 40, 0)]).fill, 8 * MIB);
        assert_eq!(Room::of(Some(MACHINE), &[group(8, 4, 0)]), Room::NONE);
    }

    #[test]
    fn the_tightest_of_nested_groups_decides() {
        let groups = [group(4096, 100, 0), group(1024, 800, 600), group(8192, 1000, 0)];
        assert_eq!(Room::of(Some(MACHINE), &groups), Room { fill: 96 * MIB, capacity: 696 * MIB });
    }

    /// A clock that stands still until it is set.
    #[derive(Debug, Default)]
    struct Hand(AtomicU64);

    impl Clock for Hand {
        fn now(&self) -> Duration {
            Duration::from_millis(self.0.load(Ordering::Relaxed))
        }

        fn sleep(&self, _: Duration) {}
    }

    struct Rig {
        room: MemoryRoom,
        hand: Arc<Hand>,
        fill: Arc<AtomicU64>,
        looks: Arc<AtomicU64>,
    }

    fn rig(fill: u64) -> Rig {
        let (hand, fill, looks) =
            (Arc::new(Hand::default()), Arc::new(AtomicU64::new(fill)), Arc::new(AtomicU64::new(0)));
        let (found, counted) = (Arc::clone(&fill), Arc::clone(&looks));
        let look = move || {
            counted.fetch_add(1, Ordering::Relaxed);
            let fill = found.load(Ordering::Relaxed);
            Room { fill, capacity: fill }
        };
        Rig { room: MemoryRoom::new(Arc::clone(&hand) as Arc<dyn Clock>, look), hand, fill, looks }
    }

    #[test]
    fn half_of_the_room_is_given_away_before_the_next_look() {
        let Rig { room, hand, looks, .. } = rig(8 * MIB);
        assert_eq!((0..6).filter(|_| room.claim(MIB)).count(), 4);
        assert_eq!(looks.load(Ordering::Relaxed), 1);
        hand.0.store(60, Ordering::Relaxed);
        assert!(room.claim(MIB), "used up, so it looks again soon");
        assert_eq!(looks.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn full_memory_is_looked_at_once_a_second_and_changes_are_noticed() {
        let Rig { room, hand, fill, looks } = rig(MIB);
        assert!(!room.claim(4096) && !room.could_hold(10 * MIB));
        fill.store(100 * MIB, Ordering::Relaxed);
        hand.0.store(900, Ordering::Relaxed);
        assert!(!room.claim(4096));
        assert_eq!(looks.load(Ordering::Relaxed), 1);
        hand.0.store(1000, Ordering::Relaxed);
        assert!(room.claim(4096) && room.could_hold(75 * MIB) && !room.could_hold(76 * MIB));
        // The limit was lowered.
        fill.store(0, Ordering::Relaxed);
        hand.0.store(2000, Ordering::Relaxed);
        assert!(!room.claim(4096));
    }
}
