//! Snapshots. Any thread.

use crate::boundary;
use crate::database::{Database, Lease};
use crate::handle::{Handle, object};
use crate::status::Status;
use crate::store::Moment;

/// A snapshot of a database.
pub struct SnapshotState {
    /// The snapshot.
    pub moment: Moment,
    /// The database to which it belongs; counts the snapshot as alive.
    pub lease: Lease,
}

object!(SnapshotState, "leveldb_snapshot_t", Shared);

/// Takes a snapshot. Returns NULL if the database is closed.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_create_snapshot(db: Handle<Database>) -> Handle<SnapshotState> {
    boundary::infallible("leveldb_create_snapshot", Handle::NULL, || {
        let database = db.get()?;
        let moment = database.store.snapshot();
        Ok(Handle::new(SnapshotState { moment, lease: database.lease_snapshot() }))
    })
}

/// Releases a snapshot, also after its database was closed.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_release_snapshot(db: Handle<Database>, snapshot: Handle<SnapshotState>) {
    boundary::infallible("leveldb_release_snapshot", (), || {
        if let Ok(database) = db.get()
            && !snapshot.get()?.lease.is_of(&database)
        {
            return Err(Status::Invalid("the snapshot belongs to another database".into()));
        }
        drop(snapshot.end()?);
        Ok(())
    });
}
