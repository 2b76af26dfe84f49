"""The next table: which slots go from which gateway to which. Pure, and the same wherever it is computed.

In this order, each kind only with what the ones before have changed:

1. a slot whose leader's life is over stays with that gateway, if it is alive again (`Why.BACK`);
2. others whose leader is not alive go where they go best, the heaviest first (`Why.GONE`);
3. slots of a gateway that is draining go where they go best (`Why.DRAINING`);
4. slots that somebody wants elsewhere go there (`Why.PREFERRED`);
5. other slots with partitions move while that makes the table more even (`Why.UNEVEN`,
   `gateway.leadership.balance`), those first that gain most; `gateway.leadership.evenness`
   decides when such moves are looked for;
6. slots without partitions go back to the gateway whose turn they are round the ring, so that topics which
   are created later are even at once (`Why.FREE`). Nobody notices: there is nothing to lead.

A slot goes best where somebody wants it, if that gateway may be given slots.

Rule: 1 and 2 move nothing that a living gateway leads, 5 leaves alone what 4 has moved and goes on from
wherever others have stopped, so whoever does the first few moves, and looks again, comes to an end that is as
good. Two gateways may go by tables of different moments; comparing and setting each slot decides, and what
both have moved too much moves back once.

Whoever changes only what it leads itself need not look at what others lead in 5 (`evened`): that look is the
long one, at all slots with all their topics, for each move. Moves that make the table more even come to an
end, whoever does them.

Where all gateways that are alive are draining, they go on leading: the slots have nobody else.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from enum import Enum
from typing import Final, NamedTuple

from gateway.leadership.balance import Balance, Gain, Gateway, ring
from gateway.leadership.slots import SLOTS, Occupancy

NOBODY: Final = 0
"""In the place of a gateway's id: the slot was never given to anybody."""

SLOTS_A_TURN: Final = 64
"""Slots looked at before others may have their turn: some hundreds of partitions, under a millisecond."""


class Why(Enum):
    """Why a slot moves."""

    BACK = "its gateway has begun a new life"
    GONE = "its gateway is gone"
    DRAINING = "its gateway is draining"
    PREFERRED = "somebody wants it there"
    UNEVEN = "another gateway leads less"
    FREE = "nothing is in it"


class Move(NamedTuple):
    """A slot goes from a gateway (by id, or `NOBODY`) to another one."""

    slot: int
    source: int
    target: int
    why: Why


def next_moves(
    owners: Sequence[int],
    orphans: Collection[int],
    gateways: Iterable[Gateway],
    occupancy: Occupancy,
    evened: int | None = None,
) -> Iterator[Move | None]:
    """What moves, in order; None now and then, when others may have their turn. Who has enough stops asking.

    `owners` has the gateway id of each slot, or `NOBODY`; `orphans` are the slots whose leader's life is
    over, `gateways` those that are alive. Without any nothing moves. `evened` is the gateway whose slots move
    to make the table more even, or `NOBODY`; None: all gateways'.
    """
    alive = ring(gateways)
    receivers = [gateway for gateway in alive if not gateway.draining] or alive
    return _NextTable(owners, orphans, alive, receivers, occupancy).moves(evened) if receivers else iter(())


class _NextTable:
    """One computation. `receivers` are those of the living that may be given slots."""

    def __init__(
        self,
        owners: Sequence[int],
        orphans: Collection[int],
        alive: Sequence[Gateway],
        receivers: Sequence[Gateway],
        occupancy: Occupancy,
    ) -> None:
        self._owners = list(owners)
        self._weights = occupancy.weights
        self._balance = Balance(receivers, occupancy)
        living = {gateway.id for gateway in alive}
        self._orphans = {slot for slot in range(SLOTS) if owners[slot] not in living}.union(orphans)
        for slot, owner in enumerate(self._owners):
            if slot not in self._orphans and owner in self._balance.places:
                self._balance.put(slot, self._balance.places[owner])

    def moves(self, evened: int | None) -> Iterator[Move | None]:
        """As `next_moves`."""
        places = self._balance.places
        back = [slot for slot in sorted(self._orphans) if self._owners[slot] in places]
        for slot in back:
            self._orphans.discard(slot)
            yield self._put(slot, places[self._owners[slot]], Why.BACK)
        yield from self._all_of(self._orphans, Why.GONE)
        draining = [slot for slot in range(SLOTS) if self._owners[slot] not in places]
        yield from self._all_of(draining, Why.DRAINING)
        yield from self._wanted_elsewhere()
        yield from self._uneven(evened)
        yield from self._free()

    def _put(self, slot: int, place: int, why: Why) -> Move:
        source, target = self._owners[slot], self._balance.ids[place]
        self._balance.put(slot, place)
        self._owners[slot] = target
        return Move(slot, source, target, why)

    def _all_of(self, slots: Iterable[int], why: Why) -> Iterator[Move | None]:
        """These are led by nobody whom the balance knows: each goes where it goes best."""
        for done, slot in enumerate(sorted(slots, key=lambda slot: (-self._weights[slot], slot)), 1):
            if not done % SLOTS_A_TURN:
                yield None
            best = self._balance.best(slot) if self._weights[slot] else self._balance.turn(slot)
            yield self._put(slot, best, why)

    def _wanted_elsewhere(self) -> Iterator[Move | None]:
        balance = self._balance
        for slot in range(SLOTS):
            place, wanted = balance.places[self._owners[slot]], balance.preferred(slot)
            if wanted is not None and wanted != place:
                balance.take_out(slot, place)
                yield self._put(slot, wanted, Why.PREFERRED)

    def _uneven(self, evened: int | None) -> Iterator[Move | None]:
        """The move that gains most, and so on, until none gains anything."""
        balance = self._balance
        some = [
            slot
            for slot in range(SLOTS)
            if self._weights[slot]
            and evened in {None, self._owners[slot]}
            and balance.preferred(slot) is None
        ]
        while True:
            most: tuple[Gain, int, int] | None = None
            for done, slot in enumerate(some, 1):
                better = balance.better(slot, balance.places[self._owners[slot]])
                if better is not None and (most is None or better[0] > most[0]):
                    most = (better[0], slot, better[1])
                if not done % SLOTS_A_TURN:
                    yield None
            if most is None:
                return
            _, slot, target = most
            balance.take_out(slot, balance.places[self._owners[slot]])
            yield self._put(slot, target, Why.UNEVEN)
            if evened is not None:
                some.remove(slot)

    def _free(self) -> Iterator[Move | None]:
        balance = self._balance
        for slot in range(SLOTS):
            if slot % SLOTS_A_TURN == SLOTS_A_TURN - 1:
                yield None
            place = balance.turn(slot)
            if not self._weights[slot] and self._owners[slot] != balance.ids[place]:
                yield self._put(slot, place, Why.FREE)
