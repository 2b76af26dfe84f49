"""What a store's machine asks of its past."""

from typing import Protocol

from mesh.protocol.address_state import AddressState


class StoreCorrupt(Exception):
    """A stored value could not be read back whole."""


class Disk(Protocol):
    """Small reads of what is durable. All raise `StoreCorrupt`."""

    def load(self, address: str) -> AddressState | None:
        """What is kept of an address, or None."""

    def row(self, address: str, sequence: int) -> tuple[bytes, int]:
        """A record's row and the running maximum timestamp in it; (b"", -1) where no row is kept."""

    def highest_epoch(self, log: str) -> tuple[int, str]:
        """The highest epoch that any OPEN announced for this log and the life that did; (-1, "") for none."""

    def highest_epoch_of_all(self) -> int:
        """The highest epoch of any log; -1 for none. Reads one of each log."""

    def unended(self, log: str) -> list[str]:
        """The addresses of a log that were announced here, and may be neither closed nor deleted."""
