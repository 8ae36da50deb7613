//! `KeyRange`: what the public interface accepts as a range of keys.

use std::ops::{Bound, Range, RangeBounds, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

/// A range of keys, as Rust writes them: `..`, `"a".."c"`, `"a"..`, `.."c"`, `"a"..="c"`, `..="c"`, or a pair of
/// [`Bound`]s. The keys may be of any type that is `AsRef<[u8]>`. A reference to a range is a range.
///
/// It stands in place of [`RangeBounds`], which does not name the type of the keys of `..`. An empty or inverted range
/// has no keys; it is not an error. Only the types listed here implement the trait.
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
/// use alluvium::KeyRange;
/// use std::ops::Bound;
///
/// for key in ["a", "b", "c"] {
///     db.put(key, "")?;
/// }
/// assert_eq!(db.range(..)?.count(), 3);
/// assert_eq!(db.range("a".."c")?.count(), 2);
/// assert_eq!(db.range(vec![b'b']..)?.count(), 2);
/// assert_eq!(db.range((Bound::Excluded("a"), Bound::Unbounded))?.count(), 2);
/// let first: &dyn KeyRange = &(..=[b'a']);
/// db.delete_range(first)?;
/// assert_eq!(db.range(..)?.count(), 2);
/// # Ok::<(), alluvium::Error>(())
/// ```
pub trait KeyRange: sealed::Sealed {
    /// Where the range starts.
    ///
    /// ```
    /// use alluvium::KeyRange;
    /// assert_eq!(KeyRange::lower(&("a".."c")), std::ops::Bound::Included(&b"a"[..]));
    /// ```
    fn lower(&self) -> Bound<&[u8]>;

    /// Where the range ends.
    ///
    /// ```
    /// use alluvium::KeyRange;
    /// assert_eq!(KeyRange::upper(&("a".."c")), std::ops::Bound::Excluded(&b"c"[..]));
    /// ```
    fn upper(&self) -> Bound<&[u8]>;
}

mod sealed {
    pub trait Sealed {}
}

impl sealed::Sealed for RangeFull {}

impl KeyRange for RangeFull {
    fn lower(&self) -> Bound<&[u8]> {
        Bound::Unbounded
    }

    fn upper(&self) -> Bound<&[u8]> {
        Bound::Unbounded
    }
}

impl<R: KeyRange + ?Sized> sealed::Sealed for &R {}

impl<R: KeyRange + ?Sized> KeyRange for &R {
    fn lower(&self) -> Bound<&[u8]> {
        (**self).lower()
    }

    fn upper(&self) -> Bound<&[u8]> {
        (**self).upper()
    }
}

macro_rules! ranges_of_keys {
    ($($range:ty),+ $(,)?) => {$(
        impl<K: AsRef<[u8]>> sealed::Sealed for $range {}

        impl<K: AsRef<[u8]>> KeyRange for $range {
            fn lower(&self) -> Bound<&[u8]> {
                RangeBounds::<K>::start_bound(self).map(AsRef::as_ref)
            }

            fn upper(&self) -> Bound<&[u8]> {
                RangeBounds::<K>::end_bound(self).map(AsRef::as_ref)
            }
        }
    )+};
}

ranges_of_keys!(Range<K>, RangeFrom<K>, RangeTo<K>, RangeInclusive<K>, RangeToInclusive<K>, (Bound<K>, Bound<K>),);
