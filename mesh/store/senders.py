"""What a store takes from whom, beyond what a sender's role allows at all (`mesh.keys.roles`).

Rules:

* native records are not for what a gateway has announced or is known to have made, whatever subjects their
  producer may publish;
* what another store gives without being asked by a name of its own, as if a writer sent it again, is such a
  record: of a segment only its writer does that. Copies and what the scrub asks for come under other ids;
* another store, which may have a segment copied here, does not say from whom: its members have it. Which ends
  it may pass on depends on what is known of the segment (`mesh.protocol.segments`).
"""

from typing import Any

from mesh.keys.certificate import Certificate
from mesh.keys.roles import Role
from mesh.protocol.address_state import Phase
from mesh.protocol.disk import Disk, StoreCorrupt
from mesh.protocol.ingest import Ingest
from wireproto.dafka import ids
from wireproto.dafka.additions import Copy, Request
from wireproto.dafka.messages import DirectRecord, Head, Record


class Senders:
    """Looks at the messages of one store. `admits` raises `MalformedMessage` for what cannot be read."""

    def __init__(self, ingest: Ingest, disk: Disk) -> None:
        self._ingest = ingest
        self._disk = disk

    def admits(self, sender: Certificate, message: Any) -> bool:
        """Whether this counts of that sender, whose role allows it; not where the disk cannot tell."""
        try:
            if sender.role is Role.PRODUCER and isinstance(message, Record | Head | DirectRecord):
                return self._is_native(message.address)
            if sender.role is Role.STORE and isinstance(message, DirectRecord):
                return message.requester != self._ingest.incarnation or self._is_native(message.address)
            if sender.role is Role.STORE and isinstance(message, Request) and message.id == ids.COPY:
                return not any(Copy.unpack(entry).sources for entry in message.entries)
        except StoreCorrupt:
            return False
        return True

    def _is_native(self, address: str) -> bool:
        if self._ingest.is_gateways(address):
            return False
        state = self._ingest.known(address) or self._disk.load(address)
        return state is None or state.phase is Phase.NATIVE
