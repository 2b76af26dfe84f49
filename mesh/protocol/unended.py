"""Which segments of each log were announced here and have no agreed end yet, so that an OPEN of a higher
epoch finds them without a look at all the others.
"""

from mesh.protocol.address_state import AddressState, Phase, life_of
from mesh.protocol.addresses import Addresses
from mesh.protocol.disk import Disk, StoreCorrupt
from wireproto.dafka.additions import Announcement

MAX_NAMED = 1024
"""Addresses that one answer to OPEN names, those that begin last."""


class Unended:
    """The lists of one store. A log's is read when one of its segments is announced for the first time since
    the start; from then on `note` keeps it.
    """

    def __init__(self, addresses: Addresses, disk: Disk) -> None:
        self._addresses = addresses
        self._disk = disk
        self._logs: dict[str, dict[str, None]] = {}

    def read(self, log: str) -> None:
        """To be called before a segment of this log is announced. Raises `StoreCorrupt`."""
        if log not in self._logs:
            self._logs[log] = dict.fromkeys(self._disk.unended(log))

    def note(self, log: str, address: str, phase: Phase) -> None:
        """A segment of this log is in this phase now."""
        listed = self._logs.get(log)
        if listed is None:
            return
        if phase < Phase.CLOSED:
            listed[address] = None
        else:
            listed.pop(address, None)

    def before(self, segment: Announcement) -> list[AddressState]:
        """The open and sealed addresses of this segment's log that have a lower epoch and are of other lives,
        those that begin last first. Raises `StoreCorrupt` if the list cannot be read.

        One that cannot be read itself is passed over: it takes no record either.
        """
        self.read(segment.log)
        life = life_of(segment.address)
        found: list[tuple[int, AddressState]] = []
        for address in [one for one in self._logs[segment.log] if life_of(one) != life]:
            try:
                state = self._addresses.known_or_new(address, "")
            except StoreCorrupt:
                self._addresses.unreadable += 1
                continue
            announced = state.announcement
            if announced is None or announced.log != segment.log or state.phase >= Phase.CLOSED:
                self.note(segment.log, address, Phase.CLOSED)
            elif announced.epoch < segment.epoch:
                found.append((announced.start, state))
        found.sort(key=lambda one: one[0], reverse=True)
        return [state for _, state in found]
