"""A kcat that is a member of a group; what it owns is read off what it says on standard error."""

from __future__ import annotations

import re
import signal
import subprocess
import threading

from kcat.program import SECONDS, SESSION, Kcat
from python_client.checks import equal

# kcat says: % Group G rebalanced (memberid M): assigned: T [0], T [1]
REBALANCED = re.compile(r"% Group .* rebalanced .*?(assigned|revoked): (.*)")
PARTITION = re.compile(r"\[(\d+)\]")


class Member:
    """`records` are "PARTITION VALUE" each."""

    def __init__(self, kcat: Kcat, group: str, topic: str) -> None:
        settings = (*SESSION, "-X", "auto.offset.reset=earliest", "-u", "-f", "%p %s\n")
        self._process = subprocess.Popen(
            kcat.command("-G", group, *settings, topic),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._records: list[str] = []
        self._owned: set[int] = set()
        self._threads = [threading.Thread(target=self._read), threading.Thread(target=self._listen)]
        for thread in self._threads:
            thread.start()

    def owned(self) -> set[int]:
        return self._owned

    def records(self) -> list[str]:
        return list(self._records)

    def leave(self) -> None:
        """In order: SIGINT is how a user ends kcat."""
        self._process.send_signal(signal.SIGINT)
        equal(self._process.wait(SECONDS), 0, "exit status of the member that left")

    def close(self) -> None:
        """SIGKILL: the group is told nothing."""
        self._process.kill()
        self._process.wait()
        for thread in self._threads:
            thread.join()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout:
            self._records.extend(line.rstrip("\n") for line in self._process.stdout)

    def _listen(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr:
            for line in self._process.stderr:
                if found := REBALANCED.search(line):
                    named = {int(number) for number in PARTITION.findall(found[2])}
                    self._owned = named if found[1] == "assigned" else self._owned - named
