"""When the interpreter looks for garbage: in stretches that nobody notices, however much a process holds.

Garbage that refers to itself is found by looking at objects. Python looks at new ones often, and every now
and then at all of them at once: 40 ms for each million, and a gateway with some ten thousand groups has
several millions. So what has been looked at is put aside (`gc.freeze`) and not looked at again: each look is
at what has come since the last one. What is put aside and becomes garbage of that kind later is found when
enough has been put aside, and the more seldom the longer that takes.

The looks at young objects are the interpreter's own, wherever they fall due. The others are made here, in a
turn of the loop. While a process starts, what a look at young objects finds in use is put aside at once: a
start makes what stays.
"""

from __future__ import annotations

import gc
import time
from typing import Final

import trio

YOUNG_OBJECTS: Final = 3_000
"""Objects, more than were freed, after which garbage is looked for among them. Python's 700 are what a dozen
requests in flight are made of: with a thousand in flight a seventh of the loop's time went into looking again
and again, most of it at all objects. With 10,000 a look takes 4 ms."""

YOUNG_ROUNDS: Final = 2
"""So many times, and once more, until those that were found in use are looked at together: 7 ms at the most.
With Python's 10, and 10,000 young objects, that was a stretch of 40 ms, and all in all no less work."""

OLD_ROUNDS: Final = 5
"""So many times those, until what has come since the last time is looked at and put aside: 8 ms."""

OLD_OBJECTS: Final = YOUNG_OBJECTS * (YOUNG_ROUNDS + 1) * OLD_ROUNDS
"""So many more objects, at the most, there are then than the last time."""

LEAST_OBJECTS: Final = 1_000_000
"""So many are put aside, or as many fewer as were freed meanwhile, before all are looked at again."""

WHOLE_SHARE: Final = 0.001
"""Of the time is what looking at all of them may take: a quarter of a second once in four minutes."""

START_SECONDS: Final = 10.0
"""So long a process starts. A gateway with 10,000 partitions makes some three million objects meanwhile, and
looking at each of them up to three times was a twelfth of its start."""

SECONDS_AN_OBJECT: Final = 4e-8
"""What a look takes."""

NEVER: Final = 1 << 30
"""Rounds after which the interpreter looks at all objects by itself."""


class Garbage:
    """Looks for garbage, and puts aside what is none. `look` belongs in the loop's thread."""

    def __init__(self) -> None:
        self._aside = 0
        """About so many objects were put aside since all were looked at."""
        self._next_whole: float | None = None
        """When all may be looked at again, on trio's clock; None before the first `look`."""

    def due(self) -> bool:
        """Whether it is time to `look`."""
        return gc.get_count()[2] >= OLD_ROUNDS

    def put_aside(self) -> None:
        """What the interpreter's own look has just found in use."""
        self._aside += YOUNG_OBJECTS
        gc.freeze()

    def look(self) -> None:
        """At what has come since the last time, or at all objects."""
        now = trio.current_time()
        if self._next_whole is None:
            # A start has put them aside, and what it makes is no garbage.
            self._next_whole = now + self._aside * SECONDS_AN_OBJECT / WHOLE_SHARE
        self._aside += OLD_OBJECTS
        if self._aside < LEAST_OBJECTS or now < self._next_whole:
            gc.collect()
        else:
            began = time.thread_time()
            gc.unfreeze()
            gc.collect()
            took = time.thread_time() - began
            self._aside, self._next_whole = 0, trio.current_time() + took / WHOLE_SHARE
        gc.freeze()


async def look_for_garbage() -> None:
    """For ever: `Garbage.look` when it is due."""
    garbage = Garbage()
    call_soon = trio.lowlevel.current_trio_token().run_sync_soon
    start_ends = time.monotonic() + START_SECONDS

    def after_each(phase: str, info: dict[str, int]) -> None:
        # In whatever thread has just made an object: nothing that takes long is done here.
        if phase == "start" or info["generation"] > 1:
            return
        if time.monotonic() < start_ends:
            garbage.put_aside()
        elif info["generation"] == 1 and garbage.due():
            call_soon(garbage.look, idempotent=True)

    before = gc.get_threshold()
    gc.set_threshold(YOUNG_OBJECTS, YOUNG_ROUNDS, NEVER)
    gc.callbacks.append(after_each)
    try:
        await trio.sleep_forever()
    finally:
        gc.callbacks.remove(after_each)
        gc.set_threshold(*before)
