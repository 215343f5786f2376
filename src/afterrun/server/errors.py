"""What can stand between a caller and a server."""

from __future__ import annotations

from afterrun.core.errors import AfterrunError, StoreLocked


class ServerUnreachable(AfterrunError):
    """The server that holds a store does not answer. Nothing is known of what was asked of it."""


class StoreHeld(StoreLocked):
    """A server holds the store, and what was asked does not go through it. Nothing was done."""
