"""An embedded, persistent, ordered key-value store: pairs of bytes in a directory, in key order.

``open`` opens or creates a store and returns a ``DB``. ``import alluvium as plyvel`` is enough for most programs that
were written for plyvel.
"""

from __future__ import annotations

from os import PathLike as _PathLike
from typing import Any as _Any

from ._alluvium import (
    DB,
    Backups,
    Changes,
    Iterator,
    Keyspace,
    PrefixedDB,
    RawIterator,
    Snapshot,
    StagedBatch,
    Transaction,
    WriteBatch,
    __version__,
    destroy_db,
    repair_db,
)
from ._errors import (
    AlreadyOpenError,
    ChangesTooOldError,
    ClosedError,
    ConflictError,
    CorruptionError,
    DiskFullError,
    Error,
    ForkedError,
    InvalidArgumentError,
    IOError,
    IteratorInvalidError,
    KeyspaceDroppedError,
    KeyspaceMismatchError,
    ReadOnlyError,
)

# For programs that check plyvel's LevelDB version: the version with this interface.
__leveldb_version__ = "1.23"

__all__ = [
    "DB",
    "AlreadyOpenError",
    "Backups",
    "Changes",
    "ChangesTooOldError",
    "ClosedError",
    "ConflictError",
    "CorruptionError",
    "DiskFullError",
    "Error",
    "ForkedError",
    "IOError",
    "InvalidArgumentError",
    "Iterator",
    "IteratorInvalidError",
    "Keyspace",
    "KeyspaceDroppedError",
    "KeyspaceMismatchError",
    "PrefixedDB",
    "RawIterator",
    "ReadOnlyError",
    "Snapshot",
    "StagedBatch",
    "Transaction",
    "WriteBatch",
    "__leveldb_version__",
    "__version__",
    "destroy_db",
    "open",
    "repair_db",
]


def open(name: str | bytes | _PathLike[str] | _PathLike[bytes], **options: _Any) -> DB:
    """Open the store in a directory, and create it if there is none. Options are those of ``DB``."""
    options.setdefault("create_if_missing", True)
    return DB(name, **options)
