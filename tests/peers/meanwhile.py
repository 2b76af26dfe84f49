"""Something that is done again and again while the scenario goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager


@contextmanager
def meanwhile(step: Callable[[], None], pause_seconds: float) -> Iterator[None]:
    """Call `step` until the end of the block. What it raises is raised there."""
    enough = threading.Event()

    def steps() -> None:
        while not enough.wait(pause_seconds):
            step()

    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(steps)
        try:
            yield
        finally:
            enough.set()
        done.result()
