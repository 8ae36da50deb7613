"""The exceptions. Their messages come from the store."""

import builtins


class Error(Exception):
    """An error of a store; the base of the other classes."""


class IOError(Error, builtins.IOError):
    """A system call on a file failed."""


class AlreadyOpenError(IOError):
    """Another process, or another DB of this one, has the store open for writing."""


class DiskFullError(IOError):
    """The disk is full. Nothing was written; the store resumes by itself once there is space."""


class CorruptionError(Error):
    """Bytes on disk are not what was written there."""


class ConflictError(Error):
    """Another writer has changed what a transaction has read. Nothing was written: run the transaction again."""

    key: bytes
    """The whole key, including the prefix if it was read through a prefixed_db."""


class ChangesTooOldError(Error):
    """The changes after this number are not kept any more."""

    oldest: int
    """The number after which changes are kept."""


class ReadOnlyError(Error):
    """The store was opened for reading only, or became read-only after a failure."""


class ClosedError(Error, RuntimeError):
    """The object is closed: a store, or an iterator, snapshot or transaction."""


class ForkedError(Error, RuntimeError):
    """The store was opened by the process from which this one was forked."""


class InvalidArgumentError(Error, ValueError):
    """An argument that is never valid."""


class IteratorInvalidError(Error):
    """A raw iterator is not positioned on a pair."""


class KeyspaceDroppedError(Error):
    """The keyspace was dropped. One that was created with its name later is another one."""


class KeyspaceMismatchError(Error):
    """The keyspace has another option, such as its merge operator or expiry, than the one that was asked for."""
