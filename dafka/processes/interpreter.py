"""How the interpreter is set up in a process that serves."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

SWITCH_INTERVAL_SECONDS = 0.0005
"""How long another thread waits for the interpreter while the loop is busy: in every fsync's path."""

YOUNG_OBJECTS = 10_000
"""Objects, more than were freed, after which garbage is looked for. Python's 700 are what a dozen requests in
flight are made of: with a thousand in flight a seventh of the loop's time went into looking at them again."""

YOUNG_ROUNDS = 2
"""So many times, and once more, until those that were found in use are looked at together: with Python's 10
that is a stretch of 40 ms, and all of them are looked at as often either way."""

OLD_ROUNDS = 50
"""And so many times those, until all objects are looked at: after a million and a half, as with Python's 10
times 10, and only if they are a quarter more than the last time."""


@contextmanager
def loading() -> Iterator[None]:
    """Around the imports of a process that serves: they make no garbage, and looking for it took 0.1 s."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def set_up_interpreter() -> None:
    """To be called once, when all modules are loaded and nothing is served yet.

    What is there by now stays for good: some 300,000 objects, of modules and Kafka's schemas, that the
    garbage collector need not look at again. It did in stretches of 30 to 60 ms of the loop.
    """
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
    gc.set_threshold(YOUNG_OBJECTS, YOUNG_ROUNDS, OLD_ROUNDS)
    gc.freeze()
