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
from collections.abc import Iterator
from contextlib import contextmanager

from dafka_pipeline.failures import Refused
from dafka_pipeline.table.location import Location


@contextmanager
def held(place: Location, what: str, *, wait: bool = False) -> Iterator[None]:
    """Hold a lock file of this machine while the block runs; the kernel lets go of it after a SIGKILL.

    On a file system that is not this machine's there is nothing to hold.
    Raises Refused, with who holds it, unless `wait` is given.
    """
    path = place.path
    if path is None:
        yield
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644), "r+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Refused(f"{what} is already running on this archive: {_holder(file.read())}.") from None
        file.seek(0)
        file.truncate()
        json.dump({"process": os.getpid(), "host": socket.gethostname(), "what": what}, file)
        file.flush()
        yield


def _holder(text: str) -> str:
    try:
        holder = json.loads(text)
        who = f"process {holder['process']} ({holder['what']})"
    except (ValueError, KeyError):
        who = "another process"
    return f"{who} holds its lock; stop it, or use another directory"
