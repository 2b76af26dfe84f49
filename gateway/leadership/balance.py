"""How evenly gateways lead, and what a slot's move would gain. Pure.

Even means, the first before the second:

1. **by topic**: the partitions of each topic are spread over all gateways, so that who produces to one topic
   has the use of all of them;
2. **in all**: each gateway leads about as many partitions as another.

Rule: a slot moves only where that makes the sum over all topics and gateways of (partitions led)^2 smaller;
or leaves that as it is and makes the sum over all gateways of (partitions led in all)^2 smaller, by a gap of
more than `1 / SLACK` of what a gateway leads. Each move makes one of these integers smaller and the one
before it no larger, so moves come to an end, from wherever they begin; and counts that differ by one are left
alone, so that nothing moves to and fro.

A slot that somebody has moved to a gateway (`Occupancy.preferred`) counts for evenness, and stays there while
that one is there for it.

Where several gateways are as good, partitions of a topic go to the racks that lead fewest of it, and then as
the gateways follow one another round the ring of slots. A rack alone is no reason to move anything: gateways
keep no records, and a rack that is lost takes no more than its gateways' share of leaders.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from gateway.leadership.slots import Occupancy

SLACK: Final = 20
"""A difference in all of one part in so many of what a gateway leads moves nothing: each move costs some
producers and consumers a pause."""


class Gateway(NamedTuple):
    """A gateway that is alive. `rack` is where it stands, "" if nobody has said; one that is `draining` is to
    lead nothing.
    """

    id: int
    rack: str = ""
    draining: bool = False


class Gain(NamedTuple):
    """What a move makes smaller: the larger, the better."""

    by_topic: int
    in_all: int


def ring(gateways: Iterable[Gateway]) -> list[Gateway]:
    """The order in which gateways take turns round the slots: those of one rack as far apart as can be."""
    racks: dict[str, list[Gateway]] = {}
    for gateway in sorted(gateways):
        racks.setdefault(gateway.rack, []).append(gateway)
    # Places that are equal are equal as floats, too: a quotient is rounded as it is, whoever computes it.
    turns = [
        ((2 * number + 1) / (2 * len(inside)), gateway.rack, gateway)
        for inside in racks.values()
        for number, gateway in enumerate(inside)
    ]
    return [gateway for _, _, gateway in sorted(turns)]


class Balance:
    """What each of the gateways leads that may be given slots. They are known by their places round the ring.

    A slot is taken out before it is asked where it goes best.
    """

    def __init__(self, gateways: Sequence[Gateway], occupancy: Occupancy) -> None:
        """`gateways` in the order of `ring`, one at least. Nobody leads a slot yet."""
        self.ids = [gateway.id for gateway in gateways]
        self.places = {gateway.id: place for place, gateway in enumerate(gateways)}
        self._occupancy = occupancy
        self._racks = [gateway.rack for gateway in gateways]
        self._in_all = [0] * len(gateways)
        self._by_topic = [[0] * len(gateways) for _ in range(occupancy.topics)]

    def put(self, slot: int, place: int) -> None:
        """This gateway leads the slot."""
        for topic, partitions in self._occupancy.contents[slot]:
            self._by_topic[topic][place] += partitions
        self._in_all[place] += self._occupancy.weights[slot]

    def take_out(self, slot: int, place: int) -> None:
        """This gateway does not lead the slot any more."""
        for topic, partitions in self._occupancy.contents[slot]:
            self._by_topic[topic][place] -= partitions
        self._in_all[place] -= self._occupancy.weights[slot]

    def turn(self, slot: int) -> int:
        """The place whose turn a slot is round the ring: where it goes while nothing is in it."""
        return slot % len(self.ids)

    def preferred(self, slot: int) -> int | None:
        """The place where somebody wants a slot to be; None also while the gateway is not there for it."""
        gateway = self._occupancy.preferred(slot)
        return None if gateway is None else self.places.get(gateway)

    def best(self, slot: int) -> int:
        """The place where a slot that nobody leads goes best."""
        preferred = self.preferred(slot)
        return self._best(slot, self._costs(slot)) if preferred is None else preferred

    def better(self, slot: int, place: int) -> tuple[Gain, int] | None:
        """Where a slot would go better than at `place`, which leads it, and what that gains."""
        self.take_out(slot, place)
        costs = self._costs(slot)
        target = self._best(slot, costs)
        gain = Gain(costs[place] - costs[target], self._in_all[place] - self._in_all[target])
        self.put(slot, place)
        return (gain, target) if self._is_worth_it(gain) else None

    def _is_worth_it(self, gain: Gain) -> bool:
        slack = sum(self._in_all) // (len(self.ids) * SLACK)
        return gain.by_topic > 0 or (gain.by_topic == 0 and gain.in_all > slack)

    def _costs(self, slot: int) -> list[int]:
        """By place: how much the slot would add to the first sum there, less what it adds anywhere."""
        contents = self._occupancy.contents[slot]
        if len(contents) == 1:
            topic, partitions = contents[0]
            return [partitions * led for led in self._by_topic[topic]]
        costs = [0] * len(self.ids)
        for topic, partitions in contents:
            for place, led in enumerate(self._by_topic[topic]):
                costs[place] += partitions * led
        return costs

    def _best(self, slot: int, costs: Sequence[int]) -> int:
        least = min(zip(costs, self._in_all, strict=True))
        equal = [place for place, cost in enumerate(zip(costs, self._in_all, strict=True)) if cost == least]
        if len(equal) == 1:
            return equal[0]
        in_rack = self._in_racks(slot)
        turn, count = self.turn(slot), len(self.ids)
        return min(equal, key=lambda place: (in_rack[self._racks[place]], (place - turn) % count))

    def _in_racks(self, slot: int) -> dict[str, int]:
        """How many partitions each rack leads of the topics that are in the slot."""
        led = dict.fromkeys(self._racks, 0)
        for topic, _ in self._occupancy.contents[slot]:
            for rack, partitions in zip(self._racks, self._by_topic[topic], strict=True):
                led[rack] += partitions
        return led
