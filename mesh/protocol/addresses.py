"""Which addresses a store has in memory, and what it reads of the others when it meets them."""

import logging

from mesh.protocol.address_state import AddressState, Phase
from mesh.protocol.copying import is_unfinished
from mesh.protocol.disk import Disk, StoreCorrupt
from mesh.protocol.lives import Lives
from mesh.protocol.published_address import is_published

MAX_CLOSED_STATES = 4096
"""Closed, deleted and unreadable addresses kept in memory; others are read again when asked about."""

MAX_ADDRESSES = 200_000
"""Addresses kept in memory that are open, sealed, native, or closed and not whole; further ones are not
opened, sealed or copied, and their records are not taken."""

logger = logging.getLogger(__name__)


class Addresses:
    """The states in memory, each object the only one of its address."""

    def __init__(self, disk: Disk) -> None:
        self.live: dict[str, AddressState] = {}
        """Those that may still take records. Looked up for each RECORD."""
        self.lives = Lives()
        self.unreadable = 0
        """RECORDs, HEADs and requests for addresses whose past cannot be read."""
        self.unannounced = 0
        """RECORDs and HEADs of gateways' addresses that were not announced here."""
        self._disk = disk
        self._closed: dict[str, AddressState] = {}
        self._bad: dict[str, None] = {}
        self._epochs: dict[str, tuple[int, str]] = {}

    def known(self, address: str) -> AddressState | None:
        """The state of an address in memory. Safe from any thread."""
        return self.live.get(address) or self._closed.get(address)

    def heard(self, address: str, subject: str) -> AddressState | None:
        """Whom a RECORD or HEAD is for; None if it is kept elsewhere, its past cannot be read, or there is no
        room for it; or if it is about the values of a partition, which are here as that.
        """
        if self.lives.is_elsewhere(address):
            self.unannounced += 1
            return None
        if is_published(address):
            return None
        try:
            if address not in self._bad:
                return self.state(address, subject)
        except StoreCorrupt as error:
            logger.error("%s", error)
            # Remembered until a request asks again: its writer may send many records a second.
            self._bad[address] = None
            if len(self._bad) > MAX_CLOSED_STATES:
                del self._bad[next(iter(self._bad))]
        self.unreadable += 1
        return None

    def is_native(self, state: AddressState) -> bool:
        """Whether an address that nobody announced may be a native producer's, whose records are kept. A
        gateway's is forgotten.
        """
        lives = self.lives
        if state.native_at == lives.changes:
            return True
        if not lives.has(state.address):
            state.native_at = lives.changes
            return True
        self.unannounced += 1
        if state.accepted < 0:
            self.live.pop(state.address, None)
            self.lives.put_elsewhere(state.address)
        return False

    def state(self, address: str, subject: str) -> AddressState | None:
        """The state of an address, a new one if need be; None if there is no room. Raises `StoreCorrupt`."""
        if len(self.live) >= MAX_ADDRESSES and address not in self.live and address not in self._closed:
            return None
        return self.known_or_new(address, subject)

    def known_or_new(self, address: str, subject: str) -> AddressState:
        """As `state`, room or not: for what leaves the memory with its commit."""
        state = self.known(address)
        if state is None:
            state = self._disk.load(address) or AddressState(address, subject)
            self._bad.pop(address, None)
            self.lives.take_back(address)
            if state.phase >= Phase.CLOSED and not is_unfinished(state):
                self.retire(state)
            else:
                self.live[address] = state
        return state

    def drop_empty(self, state: AddressState) -> None:
        """Forget an address that was made for a request that was refused."""
        if state.phase is Phase.NATIVE and state.accepted < 0:
            self.live.pop(state.address, None)

    def retire(self, state: AddressState) -> None:
        """It takes nothing more."""
        self.live.pop(state.address, None)
        self._closed[state.address] = state
        if len(self._closed) > MAX_CLOSED_STATES:
            del self._closed[next(iter(self._closed))]

    def revive(self, state: AddressState) -> None:
        """It lacks records that it may take."""
        self.live[state.address] = self._closed.pop(state.address, state)

    def forget(self, state: AddressState) -> None:
        self.live.pop(state.address, None)
        self._closed.pop(state.address, None)

    def row(self, address: str, sequence: int) -> tuple[bytes, int]:
        """As `Disk.row`."""
        return self._disk.row(address, sequence)

    def highest_epoch(self, log: str) -> tuple[int, str]:
        """The highest epoch announced for a log, and the life that did. Raises `StoreCorrupt`."""
        epoch = self._epochs.get(log)
        if epoch is None:
            epoch = self._epochs[log] = self._disk.highest_epoch(log)
        return epoch

    def set_epoch(self, log: str, epoch: tuple[int, str]) -> None:
        self._epochs[log] = epoch

    def highest_epoch_of_all(self) -> int:
        """The highest epoch announced for any log, -1 for none. Slow. Raises `StoreCorrupt`."""
        remembered = max((epoch for epoch, _ in self._epochs.values()), default=-1)
        return max(remembered, self._disk.highest_epoch_of_all())
