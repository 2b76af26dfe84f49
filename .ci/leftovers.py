"""End the processes that carry this run's mark in their environment, and print each of them.

Not the caller and what stands above it: those are this run itself.
"""

import os
import signal
import sys
from pathlib import Path


def main(run: str) -> None:
    mark = f"DAFKA_CI_RUN={run}".encode()
    own = set(ancestors(os.getpid()))
    for directory in Path("/proc").glob("[0-9]*"):
        pid = int(directory.name)
        try:
            if pid in own or mark not in (directory / "environ").read_bytes().split(b"\0"):
                continue
            command = (directory / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            os.kill(pid, signal.SIGKILL)
        except OSError:
            continue  # it has ended meanwhile, or is another user's
        if command:  # what has none is dead already and only not yet waited for
            print(pid, command[:160])


def ancestors(pid: int) -> list[int]:
    """A process, its parent, and so on up to the first one."""
    chain = []
    while pid > 0:
        chain.append(pid)
        pid = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    return chain


if __name__ == "__main__":
    main(sys.argv[1])
