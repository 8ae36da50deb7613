"""What goes wrong. Each message is the store's."""

import builtins


class Error(Exception):
    """Anything that goes wrong in a store; the other classes are kinds of it."""


class IOError(Error, builtins.IOError):
    """The system refused an operation on a file."""


class AlreadyOpenError(IOError):
    """Another process, or another DB of this one, has the store open for writing."""


class DiskFullError(IOError):
    """The disk is full. Nothing was written; the store goes on by itself once there is room."""


class CorruptionError(Error):
    """Bytes on disk are not what was written there."""


class ConflictError(Error):
    """Others have written what a transaction has read. Nothing was changed: it may be run again."""

    key: bytes
    """The whole key, with the prefix where it was read through a prefixed_db."""


class ReadOnlyError(Error):
    """The store was opened for reading only, or takes no more writes since a failure."""


class ClosedError(Error, RuntimeError):
    """What was used is closed: a store, or an iterator, snapshot or transaction."""


class ForkedError(Error, RuntimeError):
    """The store was opened by the process that this one was forked from."""


class InvalidArgumentError(Error, ValueError):
    """An argument that no store accepts."""


class IteratorInvalidError(Error):
    """A raw iterator stands on no pair."""
