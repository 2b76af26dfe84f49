"""Whether what concurrent clients were told could have come from one thing that does one thing at a time.

Each operation has a time when it was asked for and one when it was answered. A history is *linearizable* if
each operation can be given a moment between the two, so that one after the other, in the order of these
moments, they are what a sequential model would have answered (Herlihy and Wing). One without an answer (its
client was cut off, or gave up) may have its moment at any time after it was asked for, or none at all.

Theory of operation: Wing and Gong's search, with Lowe's memory. All calls and returns are in a list, in the
order of their times. The search takes out an operation that was called before anything in the list returned
and that the model allows next, and goes on with what is left; where there is none, it puts back what it took
last and tries another one there. Which operations are out, and in which state the model is then, is all that
matters for what is left: it is remembered, and no such place is gone through twice.

A read that may come next comes next, and nothing else is tried there: in any order of what is left it can be
taken from its place and put first, and all others are answered as before. Else a search that goes wrong would
try all sets of the reads that one old answer is concurrent with. Only the caller knows what is a read: who
writes what is there already does so in vain here, and not elsewhere.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from enum import Enum
from itertools import pairwise
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

State = TypeVar("State", bound=Hashable)

NEVER: Final = math.inf
"""When an operation returned that nobody was told the outcome of."""

MAX_PLACES: Final = 200_000
"""Places (what is out, and the state) that one search goes through: some seconds. A history of clients that
are often cut off may have more of them than anybody can look at."""


class Outcome(Enum):
    """What is answered to an operation whose outcome nobody knows; a model takes it as it may have been."""

    UNKNOWN = "unknown outcome"


UNKNOWN: Final = Outcome.UNKNOWN


class Operation(NamedTuple):
    """What one client asked for, and what it was told. Times are of any unit, all by one clock; two
    operations of which one returned when the other one was invoked count as concurrent.
    """

    process: Hashable
    invoked: float
    returned: float
    asked: Any
    answered: Any

    def __str__(self) -> str:
        end = "never" if self.returned == NEVER else f"{self.returned:g}"
        return f"{self.process}: {self.asked} -> {self.answered} [{self.invoked:g} to {end}]"


Step: TypeAlias = Callable[[State, Operation], "tuple[bool, State]"]
"""The sequential model: whether the operation may be answered so in this state, and the state behind it."""

IsRead: TypeAlias = Callable[[Operation], bool]


class Verdict(Enum):
    LINEARIZABLE = "linearizable"
    NOT_LINEARIZABLE = "not linearizable"
    UNDECIDED = "undecided"
    """The bound was reached. It is no proof of anything."""


class Judgement(NamedTuple):
    """What became of a search. `order` is the longest one that was found; `stuck` came to its end and could
    have no place in it.
    """

    verdict: Verdict
    order: tuple[Operation, ...]
    stuck: Operation | None = None
    places: int = 0

    @property
    def is_good(self) -> bool:
        return self.verdict is Verdict.LINEARIZABLE

    def __str__(self) -> str:
        if self.stuck is None:
            return f"{self.verdict.value}: {len(self.order)} operations, {self.places} places"
        last = "".join(f"\n  {operation}" for operation in self.order[-SHOWN:])
        return (
            f"{self.verdict.value}: no place for\n  {self.stuck}\nin the longest order, which ends with{last}"
        )


SHOWN: Final = 12
"""Operations of the longest order that are shown: what came before seldom matters."""


def judge(
    history: Iterable[Operation],
    step: Step[State],
    initial: State,
    *,
    max_places: int = MAX_PLACES,
    is_read: IsRead = lambda _operation: False,
) -> Judgement:
    """Search for an order. Never goes through more than `max_places`: then it is UNDECIDED.

    Args:
        is_read: whether an operation that leaves the state as it is does so wherever else it may be.
    """
    return _Search(list(history), step, initial, max_places, is_read).run()


def judge_each(
    history: Iterable[Operation],
    key: Callable[[Operation], Hashable],
    step: Step[State],
    initial: State,
    *,
    max_places: int = MAX_PLACES,
) -> dict[Hashable, Judgement]:
    """As `judge`, of each key's operations alone: things that have nothing to do with each other are
    linearizable together if each one is.
    """
    parts: defaultdict[Hashable, list[Operation]] = defaultdict(list)
    for operation in history:
        parts[key(operation)].append(operation)
    return {name: judge(part, step, initial, max_places=max_places) for name, part in parts.items()}


class _List:
    """The calls and returns that are still in, as numbers: operation n has its call at 2n and its return at
    2n + 1. `first` stands before all of them.
    """

    def __init__(self, history: Sequence[Operation]) -> None:
        count = len(history)
        self.first = 2 * count
        events = [(operation.invoked, 0, 2 * number) for number, operation in enumerate(history)]
        events += [
            (operation.returned, 1, 2 * number + 1)
            for number, operation in enumerate(history)
            if operation.returned != NEVER
        ]
        order = [self.first, *(event for _, _, event in sorted(events)), self.first]
        self.after = [self.first] * (2 * count + 1)
        self.before = [self.first] * (2 * count + 1)
        for one, other in pairwise(order):
            self.after[one], self.before[other] = other, one
        self.returned = [operation.returned for operation in history]
        self._order = [(operation.returned, operation.answered is UNKNOWN) for operation in history]
        self.returns = sum(returned != NEVER for returned in self.returned)
        """How many are still in."""

    def candidates(self) -> list[int]:
        """Operations that were called before anything that is in returned: those that returned next come
        first, and those without an answer, which need no place at all, last. With these in the wrong places a
        search would try all sets of them.
        """
        called, at = [], self.after[self.first]
        while at != self.first and not at % 2:
            called.append(at // 2)
            at = self.after[at]
        return sorted(called, key=self._order.__getitem__)

    @property
    def next_return(self) -> int:
        """The operation that returned first."""
        at = self.after[self.first]
        while not at % 2:
            at = self.after[at]
        return at // 2

    def take_out(self, number: int) -> None:
        self._unlink(2 * number)
        if self.returned[number] != NEVER:
            self._unlink(2 * number + 1)
            self.returns -= 1

    def put_back(self, number: int) -> None:
        """The one that was taken out last, of those that are out."""
        if self.returned[number] != NEVER:
            self._link(2 * number + 1)
            self.returns += 1
        self._link(2 * number)

    def _unlink(self, event: int) -> None:
        before, after = self.before[event], self.after[event]
        self.after[before], self.before[after] = after, before

    def _link(self, event: int) -> None:
        self.after[self.before[event]] = self.before[self.after[event]] = event


class _Search(Generic[State]):
    def __init__(
        self,
        history: Sequence[Operation],
        step: Step[State],
        initial: State,
        max_places: int,
        is_read: IsRead,
    ) -> None:
        self._history = history
        self._step = step
        self._state = initial
        self._max_places = max_places
        self._reads = [is_read(operation) for operation in history]
        self._list = _List(history)
        self._out = 0
        """A bit for each operation that is out."""
        self._taken: list[tuple[int, State]] = []
        """What is out, in order, with the state before it."""
        self._seen = {(0, initial)}
        self._longest: tuple[Operation, ...] = ()
        self._stuck: Operation | None = None

    def run(self) -> Judgement:
        levels = [self._choices()]
        while self._list.returns:
            if any(map(self._take, levels[-1])):
                if len(self._seen) > self._max_places:
                    return self._told(Verdict.UNDECIDED)
                levels.append(self._choices())
                continue
            self._note_stuck(self._list.next_return)
            levels.pop()
            if not levels:
                return self._told(Verdict.NOT_LINEARIZABLE)
            self._put_back()
        self._longest, self._stuck = self._order(), None
        return self._told(Verdict.LINEARIZABLE)

    def _choices(self) -> Iterator[int]:
        """Operations one of which is to come next, if there is an order at all."""
        candidates = self._list.candidates()
        for number in filter(self._reads.__getitem__, candidates):
            is_legal, state = self._step(self._state, self._history[number])
            if is_legal and state == self._state:
                return iter((number,))
        return iter(candidates)

    def _take(self, number: int) -> bool:
        """Whether this operation may come next, and leads to where nobody has been."""
        is_legal, state = self._step(self._state, self._history[number])
        if not is_legal:
            return False
        out = self._out | 1 << number
        if (out, state) in self._seen:
            return False
        self._seen.add((out, state))
        self._taken.append((number, self._state))
        self._state, self._out = state, out
        self._list.take_out(number)
        return True

    def _put_back(self) -> None:
        """What was taken last."""
        number, self._state = self._taken.pop()
        self._out ^= 1 << number
        self._list.put_back(number)

    def _note_stuck(self, number: int) -> None:
        if self._stuck is None or len(self._taken) > len(self._longest):
            self._longest, self._stuck = self._order(), self._history[number]

    def _order(self) -> tuple[Operation, ...]:
        return tuple(self._history[number] for number, _ in self._taken)

    def _told(self, verdict: Verdict) -> Judgement:
        return Judgement(verdict, self._longest, self._stuck, len(self._seen))
