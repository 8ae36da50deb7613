//! The commands of the file system in a store (`crates/skipfs`), and what `stat` shows of it.

mod background;
mod check;
mod mkfs;
mod mount;
mod section;
mod unmount;

pub use check::run as check;
pub use mkfs::run as mkfs;
pub use mount::run as mount;
pub use section::add as add_section;
pub use unmount::run as unmount;

use crate::arguments::Common;
use crate::failure::Failure;
use crate::file_system_arguments::OfStore;
use std::path::Path;

/// The common arguments for a store that is named by its position. It goes before the environment. `--db` must not name
/// another one.
pub fn with_store(common: &Common, of: &OfStore) -> Result<Common, Failure> {
    let mut common = common.clone();
    if let (Some(store), Some(other), true) = (&of.store, &common.db, common.names_db)
        && store != other
    {
        let (store, other) = (store.display(), other.display());
        return Err(Failure::Usage(format!("two stores are given, {store} and --db {other}; leave one out")));
    }
    common.db = of.store.clone().or(common.db);
    if common.db.is_none() {
        return Err(Failure::Usage(
            "no store given: name its directory STORE, pass --db DIR or set ALLUVIUM_DB".into(),
        ));
    }
    Ok(common)
}

/// The failure of a command on a store without a file system.
fn no_file_system(store: &Path) -> Failure {
    let store = store.display();
    Failure::Usage(format!("the store at {store} has no file system; `alluvium mkfs` makes one in an empty store"))
}
