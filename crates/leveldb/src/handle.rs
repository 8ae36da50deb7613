//! The objects to which a C program holds pointers. Any thread.
//!
//! Invariants:
//! 1. A slot is never freed, so a pointer to a slot may always be read. When its object ends, the slot may be reused
//!    for a new object of the same kind, but only after `KEPT_ENDED` others have ended. Until then every use of the old
//!    pointer is reported as misuse.
//! 2. A slot begins with the mark of its kind, so a pointer to an object of another kind is reported, too. (A pointer
//!    to unmapped or to somebody else's freed memory is not; no library can detect that.)
//! 3. A slot's published state lies beside its object and is never freed either: atomics that may be read without
//!    holding the object.
//! 4. An object in use is not freed: shared objects are counted, exclusive ones are locked. Nothing waits for a lock;
//!    an access that would have to wait is reported as misuse.

use crate::misuse::Misuse;
use arc_swap::{ArcSwapOption, Guard};
use parking_lot::{Mutex, RwLock};
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::sync::Arc;

/// Unused slots of a kind that are kept before one is reused.
const KEPT_ENDED: usize = 1024;

/// A type whose objects are accessed through handles.
pub trait Object: Sized + 'static {
    /// The C name of the type.
    const NAME: &'static str;
    /// How the object is held: `Shared` or `Exclusive`.
    type Cell: Cell<Self>;
    /// State that may be read without holding the object; empty when the object is created.
    type Published: Default + Send + Sync;

    /// The slots of this kind that have ended.
    fn ended() -> &'static Ended<Self>;
}

/// Slots whose objects have ended, the oldest first.
pub struct Ended<T: Object>(Mutex<VecDeque<&'static Slot<T>>>);

impl<T: Object> Ended<T> {
    /// An empty list.
    pub const fn new() -> Self {
        Self(Mutex::new(VecDeque::new()))
    }
}

/// The container of an object.
pub trait Cell<T>: Send + Sync {
    /// Creates a container with an object.
    fn holding(object: T) -> Self;
    /// Stores an object in an empty container.
    fn fill(&self, object: T);
}

/// For objects that several threads use at once.
pub struct Shared<T>(ArcSwapOption<T>);

/// For objects that one thread uses at a time.
pub struct Exclusive<T>(RwLock<Option<T>>);

impl<T: Send + Sync> Cell<T> for Shared<T> {
    fn holding(object: T) -> Self {
        Self(ArcSwapOption::from_pointee(object))
    }

    fn fill(&self, object: T) {
        self.0.store(Some(Arc::new(object)));
    }
}

impl<T: Send + Sync> Cell<T> for Exclusive<T> {
    fn holding(object: T) -> Self {
        Self(RwLock::new(Some(object)))
    }

    fn fill(&self, object: T) {
        *self.0.write() = Some(object);
    }
}

/// The memory to which a C program's pointer points.
#[repr(C)]
pub struct Slot<T: Object> {
    /// The address of a static variable of this kind.
    mark: usize,
    published: T::Published,
    cell: T::Cell,
}

impl<T: Object> Slot<T> {
    fn mark() -> usize {
        std::ptr::from_ref(T::ended()).addr()
    }
}

/// A pointer to an object, received from C or returned to C.
#[repr(transparent)]
pub struct Handle<T: Object> {
    slot: *const Slot<T>,
    kind: PhantomData<T>,
}

impl<T: Object> Clone for Handle<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Object> Copy for Handle<T> {}

// SAFETY: a handle is only a number until `slot` has checked it. The object behind it may be shared (`Cell`'s bounds).
unsafe impl<T: Object> Send for Handle<T> {}
// SAFETY: see `Send`.
unsafe impl<T: Object> Sync for Handle<T> {}

impl<T: Object> Handle<T> {
    /// NULL: no object.
    pub const NULL: Self = Self { slot: std::ptr::null(), kind: PhantomData };

    /// Creates a handle of a new object, which lives until `end`.
    pub fn new(object: T) -> Self {
        let mut ended = T::ended().0.lock();
        let reused = if ended.len() > KEPT_ENDED { ended.pop_front() } else { None };
        drop(ended);
        let slot: &Slot<T> = match reused {
            Some(slot) => {
                slot.cell.fill(object);
                slot
            }
            None => {
                let (mark, published, cell) = (Slot::<T>::mark(), T::Published::default(), T::Cell::holding(object));
                Box::leak(Box::new(Slot { mark, published, cell }))
            }
        };
        Self { slot, kind: PhantomData }
    }

    /// Whether it is NULL.
    pub fn is_null(self) -> bool {
        self.slot.is_null()
    }

    /// Returns the pointer's value, with which handles can be compared and stored.
    pub fn address(self) -> usize {
        self.slot.addr()
    }

    /// Returns the handle with a value that `address` returned.
    pub fn from_address(address: usize) -> Self {
        Self { slot: std::ptr::with_exposed_provenance(address), kind: PhantomData }
    }

    fn slot(self) -> Result<&'static Slot<T>, Misuse> {
        if self.slot.is_null() {
            return Err(Misuse::Null(T::NAME));
        }
        if !self.slot.is_aligned() {
            return Err(Misuse::WrongKind(T::NAME));
        }
        // SAFETY: the C interface requires pointers that it returned. Slots are never freed (invariant 1), and each
        // begins with a word that is written before the pointer is published and never again. If the pointer is wrong,
        // only that word is read.
        let mark = unsafe { self.slot.cast::<usize>().read() };
        if mark != Slot::<T>::mark() {
            return Err(Misuse::WrongKind(T::NAME));
        }
        // SAFETY: the mark shows that it is a slot of this kind, which is never freed.
        Ok(unsafe { &*self.slot })
    }

    /// Returns the published state, also of an object that has ended.
    pub fn published(self) -> Result<&'static T::Published, Misuse> {
        Ok(&self.slot()?.published)
    }

    fn retire(slot: &'static Slot<T>) {
        T::ended().0.lock().push_back(slot);
    }
}

impl<T: Object<Cell = Shared<T>> + Send + Sync> Handle<T> {
    /// Returns the object. It lives at least as long as the returned reference.
    pub fn get(self) -> Result<Present<T>, Misuse> {
        let guard = self.slot()?.cell.0.load();
        if guard.is_some() { Ok(Present { guard }) } else { Err(Misuse::Ended(T::NAME)) }
    }

    /// Ends the object: C can no longer use it. Returns it.
    pub fn end(self) -> Result<Arc<T>, Misuse> {
        let slot = self.slot()?;
        let object = slot.cell.0.swap(None).ok_or(Misuse::Ended(T::NAME))?;
        Self::retire(slot);
        Ok(object)
    }
}

/// A shared object in use.
pub struct Present<T> {
    guard: Guard<Option<Arc<T>>>,
}

impl<T> Present<T> {
    /// Returns a reference that may outlive this one.
    pub fn keep(&self) -> Arc<T> {
        let Some(object) = &*self.guard else { unreachable!("checked when it was created") };
        Arc::clone(object)
    }
}

impl<T> std::ops::Deref for Present<T> {
    type Target = T;

    fn deref(&self) -> &T {
        let Some(object) = &*self.guard else { unreachable!("checked when it was created") };
        object
    }
}

impl<T: Object<Cell = Exclusive<T>> + Send + Sync> Handle<T> {
    /// Reads the object. Several threads may do so at once.
    pub fn look<R>(self, look: impl FnOnce(&T) -> R) -> Result<R, Misuse> {
        let guard = self.slot()?.cell.0.try_read().ok_or(Misuse::Busy(T::NAME))?;
        guard.as_ref().map(look).ok_or(Misuse::Ended(T::NAME))
    }

    /// Changes the object.
    pub fn change<R>(self, change: impl FnOnce(&mut T) -> R) -> Result<R, Misuse> {
        let mut guard = self.slot()?.cell.0.try_write().ok_or(Misuse::Busy(T::NAME))?;
        guard.as_mut().map(change).ok_or(Misuse::Ended(T::NAME))
    }

    /// Ends the object: C can no longer use it. Returns it.
    pub fn take(self) -> Result<T, Misuse> {
        let slot = self.slot()?;
        let object = slot.cell.0.try_write().ok_or(Misuse::Busy(T::NAME))?.take().ok_or(Misuse::Ended(T::NAME))?;
        Self::retire(slot);
        Ok(object)
    }
}

/// Makes a type accessible through handles.
macro_rules! object {
    ($type:ty, $name:literal, $cell:ident) => {
        $crate::handle::object!($type, $name, $cell, ());
    };
    ($type:ty, $name:literal, $cell:ident, $published:ty) => {
        impl $crate::handle::Object for $type {
            const NAME: &'static str = $name;
            type Cell = $crate::handle::$cell<Self>;
            type Published = $published;

            fn ended() -> &'static $crate::handle::Ended<Self> {
                static ENDED: $crate::handle::Ended<$type> = $crate::handle::Ended::new();
                &ENDED
            }
        }
    };
}
pub(crate) use object;

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq)]
    struct Number(u32);
    object!(Number, "number_t", Shared);

    #[derive(Debug, PartialEq)]
    struct Text(String);
    object!(Text, "text_t", Exclusive);

    #[test]
    fn ended_objects_are_reported_and_slots_are_reused_late() {
        let first = Handle::new(Number(7));
        assert_eq!(first.get().map(|number| number.0), Ok(7));
        assert_eq!(first.end().map(|number| number.0), Ok(7));
        let mut made = 0;
        loop {
            let next = Handle::new(Number(8));
            made += 1;
            if next.address() == first.address() {
                break;
            }
            assert_eq!(first.get().err(), Some(Misuse::Ended("number_t")));
            assert_eq!(first.end().err(), Some(Misuse::Ended("number_t")), "ended twice");
            next.end().unwrap();
        }
        assert!((KEPT_ENDED..KEPT_ENDED + 3).contains(&made) && made > 500, "{made}");
    }

    #[test]
    fn wrong_pointers_are_reported() {
        assert_eq!(Handle::<Number>::NULL.get().err(), Some(Misuse::Null("number_t")));
        let text = Handle::new(Text("a".into()));
        let as_number = Handle::<Number>::from_address(text.address());
        assert_eq!(as_number.get().err(), Some(Misuse::WrongKind("number_t")));
        let misaligned = Handle::<Number>::from_address(text.address() + 1);
        assert_eq!(misaligned.get().err(), Some(Misuse::WrongKind("number_t")));
        text.take().unwrap();
    }

    #[test]
    fn a_shared_object_outlives_its_end_while_it_is_used() {
        let handle = Handle::new(Number(3));
        let used = handle.get().unwrap();
        drop(handle.end().unwrap());
        assert_eq!(used.0, 3);
        assert!(handle.get().is_err());
    }

    #[test]
    fn an_exclusive_object_has_one_user() {
        let handle = Handle::new(Text("a".into()));
        let inside = handle.change(|text| {
            text.0.push('b');
            (handle.look(|text| text.0.clone()), handle.take().err())
        });
        assert_eq!(inside, Ok((Err(Misuse::Busy("text_t")), Some(Misuse::Busy("text_t")))));
        let both = handle.look(|text| (text.0.clone(), handle.look(|text| text.0.len())));
        assert_eq!(both, Ok(("ab".into(), Ok(2))));
        handle.take().unwrap();
        assert_eq!(handle.look(|text| text.0.len()), Err(Misuse::Ended("text_t")));
    }
}
