"""How the interpreter is set up in a process that serves."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

SWITCH_INTERVAL_SECONDS = 0.0005
"""How long another thread waits for the interpreter while the loop is busy: in every fsync's path."""

YOUNG_OBJECTS = 3_000
"""Objects, more than were freed, after which garbage is looked for among them. Python's 700 are what a dozen
requests in flight are made of: with a thousand in flight a seventh of the loop's time went into looking again
and again, most of it at all objects (`OLD_ROUNDS`). With 10,000 a look takes 4 ms."""

YOUNG_ROUNDS = 2
"""So many times, and once more, until those that were found in use are looked at together: 7 ms at the most.
With Python's 10, and 10,000 young objects, that was a stretch of 40 ms, and all in all no less work."""

OLD_ROUNDS = 150
"""And so many times those, until all objects are looked at: after a million and more, and only if they are a
quarter more than the last time."""


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
