//! Where a follower's change files come from: a store that this process writes, or one that another process may write.

use super::kept_files::Kept;
use crate::io::Storage;
use crate::util::sync::MutexGuard;
use crate::util::{DatabaseId, Result, SequenceNumber};

/// Where change files come from.
pub(crate) trait ChangeSource: Send + Sync {
    /// An error if they can no longer be read.
    fn check_open(&self) -> Result<()>;
    fn storage(&self) -> &dyn Storage;
    fn database(&self) -> DatabaseId;
    fn kept(&self) -> MutexGuard<'_, Kept>;
    /// Looks for more writes than there were so far.
    fn look_again(&self) -> Result<()>;
    /// Whether another process writes the files, so that the newest one may end in a part of a frame.
    fn is_foreign(&self) -> bool;
    /// The number of the last write, or one from `since` on if there are writes up to there.
    fn last(&self, since: SequenceNumber) -> Result<SequenceNumber>;
}
