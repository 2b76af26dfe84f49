"""Gives memory that is free back to the machine, after a peak.

The C library keeps what was freed for later: after a moment in which much was held (answers that nobody
reads, say) the process would stay as large as it was then. `malloc_trim` gives it back. It takes a
millisecond for each few MiB and holds up whoever allocates meanwhile, so it is called only while the process
is much larger than it was, at most every `LOOK_SECONDS`, in a thread, and ever more seldom while it finds
nothing.

Only the GNU C library has it; elsewhere nothing is done.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Final

import trio

LOOK_SECONDS: Final = 10.0
"""Seconds between two looks at the size of the process: one read of a small file."""

STARTED_SECONDS: Final = 1.0
"""After which what a start has used and freed, about half a MiB, is given back."""

GROWN_BYTES: Final = 32 * 1024 * 1024
"""Bytes by which the process must be larger than it was when it was smallest: less is not worth it."""

USEFUL_BYTES: Final = 4 * 1024 * 1024
"""Bytes that were worth it."""

LONGEST_PAUSE_SECONDS: Final = 160.0
"""Seconds between two tries that find nothing: a gateway that holds much takes little time for it."""

_STATM: Final = Path("/proc/self/statm")


def resident_bytes() -> int:
    """Memory that this process has, as the kernel counts it. Raises OSError where that cannot be asked."""
    return int(_STATM.read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def give_back_freed_memory() -> None:
    """For ever, if there is something to be done here."""
    trim = _malloc_trim()
    if trim is None or not _STATM.exists():
        return
    await trio.sleep(STARTED_SECONDS)
    await trio.to_thread.run_sync(trim, 0)
    small = resident_bytes()
    pause = LOOK_SECONDS
    while True:
        await trio.sleep(pause)
        before = resident_bytes()
        small = min(small, before)
        if before < small + GROWN_BYTES:
            pause = LOOK_SECONDS
            continue
        await trio.to_thread.run_sync(trim, 0)
        # What is still held cannot be given back: look less often, until much of it could.
        useful = before - resident_bytes() >= USEFUL_BYTES
        pause = LOOK_SECONDS if useful else min(2 * pause, LONGEST_PAUSE_SECONDS)


def _malloc_trim() -> ctypes._NamedFuncPointer | None:
    """The C library's function, which lets other threads run meanwhile."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return None
