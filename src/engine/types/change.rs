//! Decision and outcome of a read-modify-write.

/// What `Db::update_with` does to a key. The caller's function returns it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Sets the key to this value.
    Put(Vec<u8>),
    /// Deletes the key. Nothing is written if the key is absent.
    Delete,
    /// Leaves the key as it is. Nothing is written.
    Keep,
}

/// Outcome of `Db::compare_and_swap`.
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
/// use alluvium::Swap;
/// db.put("leader", "Ada")?;
/// match db.compare_and_swap("leader", Some(b"Grace"), Some(b"Edsger"))? {
///     Swap::Done => println!("Edsger leads"),
///     Swap::Differs(leader) => assert_eq!(leader.as_deref(), Some(&b"Ada"[..])),
/// }
/// # Ok::<(), alluvium::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Swap {
    /// The key had the expected value. It has the new value now.
    Done,
    /// The key has a different value, given here, or is absent (`None`). Nothing was written.
    Differs(Option<Vec<u8>>),
}

impl Swap {
    /// Whether the new value was written.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// assert!(db.compare_and_swap("leader", None, Some(b"Ada"))?.is_done());
    /// assert!(!db.compare_and_swap("leader", None, Some(b"Grace"))?.is_done());
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub fn is_done(&self) -> bool {
        *self == Self::Done
    }
}
