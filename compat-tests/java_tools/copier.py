"""Kafka's TransactionalMessageCopier, killed as in Kafka's own system tests: each record once, in order."""

from __future__ import annotations

import sys
from typing import Final

from frameworks.checks import equal, until
from frameworks.java import JavaProcess
from frameworks.side import Record, Side
from java_tools.host import Tools

MAIN_CLASS: Final = "org.apache.kafka.tools.TransactionalMessageCopier"
PARTITIONS: Final = 2
RECORDS: Final = 12_000
OF_A_TRANSACTION: Final = 10
KILLS: Final = 2
"""Of each copier; between them the server gets as many."""

TRANSACTION_TIMEOUT_MS: Final = 30_000
COPY_SECONDS: Final = 180.0


class Copying:
    """One copier for each partition of the input; it ends by itself with what was there when it began."""

    def __init__(self, tools: Tools, *how: str) -> None:
        self.server = Side(tools.bootstrap)
        self._input, self.output = tools.topic(PARTITIONS), tools.topic(PARTITIONS)
        self.server.produce(self._input, (Record(b"%d" % n, b"record %d" % n) for n in range(RECORDS)))
        self.copiers = [self._copier(tools, partition, how) for partition in range(PARTITIONS)]

    def _copier(self, tools: Tools, partition: int, how: tuple[str, ...]) -> JavaProcess:
        arguments = {
            "--broker-list": tools.bootstrap,
            "--input-topic": self._input,
            "--input-partition": str(partition),
            "--output-topic": self.output,
            "--consumer-group": f"group-{self._input}",
            "--transactional-id": f"copier-{self._input}-{partition}",
            "--transaction-size": str(OF_A_TRANSACTION),
            "--transaction-timeout": str(TRANSACTION_TIMEOUT_MS),
        }
        words = [word for pair in arguments.items() for word in pair]
        return JavaProcess(f"copier-{self.output}-{partition}", MAIN_CLASS, [*words, *how], tools.folder)

    def start(self) -> None:
        for copier in self.copiers:
            copier.start()

    def kill(self, copier: JavaProcess) -> None:
        """In the middle of its work; it begins again."""
        self.await_more()
        assert copier.runs, f"{copier.name} has ended already: {copier.tail()}"
        copier.kill9()
        copier.start()

    def await_more(self) -> None:
        """Something is copied."""
        before = self._ends()
        until(lambda: self._ends() > before, f"copies in {self.output}: {self._tails()}", COPY_SECONDS)

    def finish(self) -> None:
        """All have ended well, and have copied each record once, in order."""
        for copier in self.copiers:
            status = copier.wait(COPY_SECONDS)
            assert status == 0, f"{copier.name} ended with {status}: {copier.tail()}"
        found, wanted = (
            [(record.key, record.value) for record in self.server.read(topic)]
            for topic in (self.output, self._input)
        )
        equal(len(wanted), RECORDS, "records of the input")
        for n, (one, other) in enumerate(zip(found, wanted, strict=False)):
            equal(one, other, f"copy number {n}")
        equal(len(found), len(wanted), "copies")

    def kill_all(self) -> None:
        for copier in self.copiers:
            if copier.runs:
                copier.kill9()

    def _ends(self) -> int:
        return sum(end for _, end in self.server.bounds(self.output))

    def _tails(self) -> str:
        return "".join(copier.tail() for copier in self.copiers)


def message_copier(tools: Tools) -> None:
    """By partitions, some transactions aborted at random; then as members of a group."""
    _copied(tools, "--enable-random-aborts")
    _copied(tools, "--group-mode", "--use-group-metadata")


def _copied(tools: Tools, *how: str) -> None:
    copying = Copying(tools, *how)
    try:
        copying.start()
        for _ in range(KILLS):
            for copier in copying.copiers:
                copying.kill(copier)
            copying.await_more()
            kill_server()
        copying.finish()
    finally:
        copying.kill_all()


def kill_server() -> None:
    """SIGKILL; it serves again once this returns."""
    print("kill-server", flush=True)
    equal(sys.stdin.readline(), "restarted\n", "what the runner says")
