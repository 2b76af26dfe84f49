"""Reads closed segments again and again in the background, and checks them, before a reader needs them.

A disk loses bits silently; RocksDB notices when it reads them, and what it cannot notice the checks of
`checking` do. One segment is read at a time, in small slices in a worker thread, with rests between that keep
a bounded rate. Nothing is mended here: readers and other stores take such a range from another member, and
the operator is told, by log and metrics, to give this store a new disk.

Of each segment that is whole the digest of its records is kept: those of all members are equal.
"""

import logging

import trio

from mesh.protocol.address_state import AddressState, Phase
from mesh.protocol.disk import StoreCorrupt
from mesh.store import ranges
from mesh.store.checking import AddressCheck
from mesh.store.db import Database
from wireproto.records.row import ROW_BYTES

SCRUB_BYTES_PER_SECOND = 4 * 1024 * 1024
"""How fast a store reads its own records again: a terabyte in three days, and a few hundredths of a disk."""

SCRUB_FIRST_SECONDS = 300.0
"""How long after a start the first pass begins: a start has better things to do."""

SCRUB_REST_SECONDS = 3600.0
"""Rest between two passes."""

SLICE_BYTES = 256 * 1024
"""Read and checked at once; the check is on the loop."""

SLICE_RECORDS = 256
"""Records in a slice, however small."""

MAX_DIGESTS = 10_000
"""Segments whose digests are kept in memory, the latest ones, and damaged ones that are."""

ADDRESSES_AT_ONCE = 256
"""Addresses listed at once."""

logger = logging.getLogger(__name__)


class Scrub:
    """One store's. The counters are since the start."""

    def __init__(self, database: Database) -> None:
        self.passes = 0
        self.segments = 0
        self.bytes = 0
        self.problems = 0
        """Segments in which something was not as it must be."""
        self.damaged: dict[str, str] = {}
        """address -> what is wrong with it, of the latest pass over it."""
        self.digests: dict[str, str] = {}
        """address -> digest, as `AddressCheck.digest`."""
        self._database = database

    async def run(self) -> None:
        """Scrub for ever. Nothing that goes wrong here ends the store."""
        await trio.sleep(SCRUB_FIRST_SECONDS)
        while True:
            try:
                await self.scrub_all()
            except StoreCorrupt as error:
                logger.error("the addresses cannot be listed, and are not scrubbed: %s", error)
            await trio.sleep(SCRUB_REST_SECONDS)

    async def scrub_all(self) -> None:
        """One pass over all closed segments. Raises `StoreCorrupt` when they cannot be listed."""
        last = ""
        while True:
            addresses = await trio.to_thread.run_sync(self._list_behind, last)
            for address in addresses:
                await self._scrub(address)
            if len(addresses) < ADDRESSES_AT_ONCE:
                break
            last = addresses[-1]
        self.passes += 1

    def _list_behind(self, last: str) -> list[str]:
        return self._database.addresses(last, ADDRESSES_AT_ONCE, behind=bool(last))

    async def _scrub(self, address: str) -> None:
        """One segment, if it is closed and whole. Everything else may change meanwhile."""
        try:
            state = await self._load(address)
            if state is None:
                self.damaged.pop(address, None)
                return
            check = AddressCheck(state)
            wrong = await self._check(state, check) or check.end()
            if wrong and await self._load(address) is None:
                # It was deleted while it was read.
                return
        except StoreCorrupt as error:
            wrong, digest = str(error), ""
        else:
            digest = check.digest
        self.segments += 1
        if wrong:
            self._tell(address, wrong)
            return
        self.damaged.pop(address, None)
        _put(self.digests, address, digest)

    async def _load(self, address: str) -> AddressState | None:
        """The state of a segment that is closed and whole, else None. Raises `StoreCorrupt`."""
        state = await trio.to_thread.run_sync(self._database.load, address)
        if state is None or state.announcement is None or state.phase is not Phase.CLOSED:
            return None
        return state if state.head == state.end else None

    def _tell(self, address: str, wrong: str) -> None:
        self.problems += 1
        _put(self.damaged, address, wrong)
        self.digests.pop(address, None)
        logger.error(
            "address %s is damaged on this disk: %s; other members serve it, replace this store's disk",
            address,
            wrong,
        )

    async def _check(self, state: AddressState, check: AddressCheck) -> str:
        """What is wrong with the first record that is not as it must be, "" for none."""
        while check.next <= state.head:
            first = check.next
            try:
                contents, rows = await trio.to_thread.run_sync(self._read, state, first)
            except StoreCorrupt as error:
                return str(error)
            size = 0
            for number, content in enumerate(contents):
                wrong = check.take(first + number, content, rows[number])
                if wrong:
                    return f"sequence {first + number}: {wrong}"
                size += len(content)
            self.bytes += size
            await trio.sleep(size / SCRUB_BYTES_PER_SECOND)
        return ""

    def _read(self, state: AddressState, first: int) -> tuple[list[bytes], list[bytes]]:
        last = min(state.head, first + SLICE_RECORDS - 1)
        contents = ranges.read_records(self._database, state.address, first, last, SLICE_BYTES)
        rows = ranges.read_rows(self._database, state.address, first, first + len(contents) - 1)
        return contents, [rows[at : at + ROW_BYTES] for at in range(0, len(rows), ROW_BYTES)]


def _put(kept: dict[str, str], address: str, value: str) -> None:
    kept.pop(address, None)
    kept[address] = value
    if len(kept) > MAX_DIGESTS:
        del kept[next(iter(kept))]
