"""kcat's transactions: a process has one, which the end of its input commits.

It takes its input in blocks, so of what it is given a part is sent before the end of it. A process that is
ended leaves its transaction open, and the next one of the same id aborts that.
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from kcat.program import SECONDS, Kcat
from python_client.checks import equal, until

COMMITTED = ("-X", "isolation.level=read_committed")
UNCOMMITTED = ("-X", "isolation.level=read_uncommitted")
# Some blocks of kcat's.
RECORDS = 100
SHORT_MS = 1000


class Transaction:
    """A kcat that has some of its records sent, and waits for the end of its input."""

    def __init__(self, kcat: Kcat, topic: str, label: str, *more: str) -> None:
        self._kcat, self._topic, self.label = kcat, topic, label
        settings = ("-X", f"transactional.id={topic}", "-X", "linger.ms=0", *more)
        self._process = subprocess.Popen(
            kcat.command("-P", "-t", topic, "-p", "0", "-K:", *settings),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdin is not None
        self._process.stdin.write("".join(f"{value}\n" for value in values(label)))
        self._process.stdin.flush()

    def until_under_way(self) -> None:
        until(lambda: bool(_of(self.label, self._kcat.read(self._topic, *UNCOMMITTED))), self.label)

    def commit(self) -> None:
        status, words = self._end()
        equal(status, 0, f"exit status of a commit ({words})")

    def interrupt(self) -> None:
        self._process.send_signal(signal.SIGINT)
        self._end()

    def is_refused(self) -> None:
        """Another process has its id, or the server has aborted what it had open."""
        status, words = self._end()
        assert status != 0, words
        assert "fenced" in words or "epoch" in words, words

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()

    def _end(self) -> tuple[int, str]:
        _, words = self._process.communicate(timeout=SECONDS)
        return self._process.returncode, words


def values(label: str) -> list[str]:
    return [f"key {number}:{label} {number} {'.' * 100}" for number in range(RECORDS)]


def transactions(kcat: Kcat, topic: str) -> None:
    """Each second one is interrupted; a fifth is open while others read."""
    committed: list[str] = []
    for number in range(4):
        with _under_way(kcat, topic, f"transaction {number}") as one:
            equal(kcat.read(topic, *COMMITTED), committed, "committed records before an open transaction")
            if number % 2 == 0:
                one.commit()
                committed += values(one.label)
                _until_committed(kcat, topic, committed)
            else:
                one.interrupt()
    with _under_way(kcat, topic, "open") as one:
        equal(kcat.read(topic, *COMMITTED), committed, "committed records before the open transaction")
        one.commit()
    _until_committed(kcat, topic, committed + values("open"))
    _check_all(
        kcat,
        topic,
        whole=("transaction 0", "transaction 2", "open"),
        parts=("transaction 1", "transaction 3"),
    )


def fencing(kcat: Kcat, topic: str) -> None:
    with _under_way(kcat, topic, "the first") as one, _under_way(kcat, topic, "the second") as other:
        one.is_refused()
        other.commit()
    _until_committed(kcat, topic, values("the second"))


def timeout(kcat: Kcat, topic: str) -> None:
    behind = ["k:behind it"]
    with _under_way(kcat, topic, "too slow", "-X", f"transaction.timeout.ms={SHORT_MS}") as slow:
        kcat.produce(topic, behind)
        # Readers are held back by what is open, until it is aborted.
        _until_committed(kcat, topic, behind)
        slow.is_refused()
    with _under_way(kcat, topic, "after the timeout") as following:
        following.commit()
    _until_committed(kcat, topic, behind + values("after the timeout"))


@contextmanager
def _under_way(kcat: Kcat, topic: str, label: str, *more: str) -> Iterator[Transaction]:
    one = Transaction(kcat, topic, label, *more)
    try:
        one.until_under_way()
        yield one
    finally:
        one.close()


def _of(label: str, lines: list[str]) -> list[str]:
    return [line for line in lines if f":{label} " in line]


def _check_all(kcat: Kcat, topic: str, *, whole: tuple[str, ...], parts: tuple[str, ...]) -> None:
    """Who reads everything has all of what was committed, and of each other one what it has sent."""
    lines = kcat.read(topic, *UNCOMMITTED)
    for label in whole:
        equal(_of(label, lines), values(label), label)
    for label in parts:
        found = _of(label, lines)
        assert found, f"nothing of {label}"
        equal(found, values(label)[: len(found)], label)
    equal(
        len(lines), sum(len(_of(label, lines)) for label in (*whole, *parts)), "records of these transactions"
    )


def _until_committed(kcat: Kcat, topic: str, lines: list[str]) -> None:
    """An end is answered before its markers are written, so the last of it may come a moment later."""
    until(lambda: kcat.read(topic, *COMMITTED) == lines, f"{len(lines)} committed records")
