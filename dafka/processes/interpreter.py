"""How the interpreter is set up in a process that serves."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

SWITCH_INTERVAL_SECONDS = 0.0001
"""How long a thread waits for the interpreter while another one is busy: in every fsync's path, and, while a
worker decodes a large request, the loop itself waits so long after each of its system calls. With 0.5 ms an
answer took 20 ms then."""


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
    gc.freeze()
