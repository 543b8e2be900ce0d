"""Errors of stores outside of memory."""

from __future__ import annotations


class StoreError(Exception):
    """A store cannot be opened or used. The message names the store and what to do."""


class StoreInUse(StoreError):
    """Another writer has the store open."""


class StoreDamaged(StoreError):
    """Files of a store are damaged or missing: the message names the file."""


class StoreUnavailable(StoreError):
    """The store cannot be reached or cannot write at the moment: the same call can be repeated later.

    A write that raised this has been applied as a whole or not at all. Repeating it is safe either way.
    """


class WriterReplaced(StoreError):
    """This writer may not write any more: another one has written since, or the store has lost its last writes.

    The pages that this writer knows are out of date: open the store again, and continue from what it has.
    """


class FlushError(StoreError):
    """Pages could not be written in the background. They are kept, and written again later."""
