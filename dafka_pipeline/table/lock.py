"""Who may write to an archive: one process at a time on this machine.

Numbered commits alone decide what gets into a table. But a local file system has no "create only if absent"
that Delta could commit by (its local log store looks first, then renames), so on a local path two writers
must not commit at the same moment; and two archivers of one archive help nobody. On other file systems the
lock is not needed for safety, and a second archiver is noticed by the number of its commits.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TextIO

from dafka_pipeline.failures import Refused, Stopped
from dafka_pipeline.running.stopping import Stop
from dafka_pipeline.table.location import Location

POLL_SECONDS: Final = 0.1
"""Between two looks at a lock that somebody else holds."""
SAY_AFTER_SECONDS: Final = 10.0
"""A commit takes a second or two: who waits longer says for whom."""


@contextmanager
def held(
    place: Location, what: str, *, stop: Stop | None = None, say: Callable[[str], None] | None = None
) -> Iterator[None]:
    """Hold a lock file of this machine while the block runs; the kernel lets go of it after a SIGKILL.

    On a file system that is not this machine's there is nothing to hold.

    Raises Refused, with who holds it; with `stop` it waits instead, says so by `say`, and raises Stopped when
    the end is asked for.
    """
    path = place.path
    if path is None:
        yield
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644), "r+") as file:
        waited = 0.0
        while not _taken(file):
            if stop is None:
                raise Refused(f"{what} is already running on this archive: {_holder(file)}.")
            if say is not None and waited >= SAY_AFTER_SECONDS > waited - POLL_SECONDS:
                say(f"{what} waits: {_holder(file)}.")
            waited += POLL_SECONDS
            if stop.sleep(POLL_SECONDS):
                raise Stopped("Stopped while another process held the archive's lock.")
        file.seek(0)
        file.truncate()
        json.dump({"process": os.getpid(), "host": socket.gethostname(), "what": what}, file)
        file.flush()
        yield


def _taken(file: TextIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(file: TextIO) -> str:
    file.seek(0)
    try:
        holder = json.loads(file.read())
        who = f"process {holder['process']} ({holder['what']})"
    except (ValueError, KeyError):
        who = "another process"
    return f"{who} holds its lock; stop it, or use another directory"
