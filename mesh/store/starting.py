"""This store's starts, as its database keeps them (`mesh.protocol.starts`)."""

import struct

from mesh.protocol.disk import StoreCorrupt
from mesh.protocol.starts import begun, last_commit_of, pack_starts, unpack_starts
from mesh.store import keys
from mesh.store.db import Database


class OwnStarts:
    """The starts of one store, of which the latest is under way."""

    def __init__(self, database: Database, nonce: bytes) -> None:
        """Begin a start, durably, before anything is sent. Raises `StoreCorrupt`, `StoreFailed`."""
        self.nonce = nonce
        self._database = database
        try:
            before = unpack_starts(database.get(keys.STARTS) or b"")
        except struct.error as error:
            raise StoreCorrupt(f"the list of the store's starts cannot be read: {error}") from None
        self._starts = begun(before, nonce, database.last_commit + 1)
        database.put_now({keys.STARTS: pack_starts(self._starts)})

    @property
    def durable_commit(self) -> int:
        """The number of the last commit that this start has fsynced."""
        return self._database.durable_commit

    def last_commit_of(self, nonce: bytes) -> int:
        """The last durable commit of the start with this nonce; -1 if this store never had it."""
        return self.durable_commit if nonce == self.nonce else last_commit_of(self._starts, nonce)
