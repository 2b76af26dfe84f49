"""What a producer asks of stores, as functions that return when all is answered; its `run` must run."""

from __future__ import annotations

from collections.abc import Sequence

import trio

from mesh.producer import Producer
from mesh.protocol.opening import Opening
from mesh.protocol.recovery import Seal
from tests.entries import LATER_EPOCH
from wireproto.dafka.additions import AddressStatus, Announcement, CloseEntry


async def opened(producer: Producer, segments: Sequence[Announcement]) -> dict[str, dict[str, int]]:
    """Announce segments, until each may be written to or never will; who refused those that never will."""
    openings: dict[str, Opening] = {}
    decided = trio.Event()

    def told(opening: Opening) -> None:
        if opening.enough or opening.hopeless:
            openings[opening.address] = opening
        if len(openings) == len(segments):
            decided.set()

    for segment in segments:
        producer.segments.open(segment, told)
    await decided.wait()
    return {address: opening.refused for address, opening in openings.items() if opening.hopeless}


async def sealed(producer: Producer, seals: Sequence[Seal]) -> None:
    """Seal, until all members have answered."""
    complete = trio.Event()

    def told() -> None:
        if all(seal.complete for seal in seals):
            complete.set()

    for seal in seals:
        producer.segments.seal(seal, LATER_EPOCH, told)
    await complete.wait()


async def closed(producer: Producer, store: str, ends: Sequence[tuple[str, int]]) -> list[AddressStatus]:
    """Tell one store the ends of segments, until it has answered for each."""
    statuses: list[AddressStatus] = []
    complete = trio.Event()

    def answered(_member: str, status: AddressStatus) -> None:
        statuses.append(status)
        if len(statuses) == len(ends):
            complete.set()

    for address, end in ends:
        producer.segments.close(store, CloseEntry(address, end), answered)
    await complete.wait()
    return statuses
