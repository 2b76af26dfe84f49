"""One topic into another by the function of docs/spark.md, in a program that dies and is started again."""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, TypeVar

from tests.clients.leaders import read_at_leader
from tests.clients.stored import committed_records, create_replicated_topic, stored_batches
from tests.differential.batches import CONTROL, Record, records_of
from tests.peers.gateways import Gateways
from tests.spark.program import Program
from tests.spark.transactional import Transactions

PARTITIONS: Final = 3
COPIES: Final = 3
KEYS: Final = 5
"""Of each partition."""
PER_TRANSACTION: Final = 20
PER_BATCH: Final = "60"
LIVES: Final = 8
"""A program that ends more often than this by itself does not get on."""
END_SECONDS: Final = 180.0

T = TypeVar("T")


class Pumped:
    """The topics `source` and `target` of a cluster, and the programs that go from one to the other."""

    def __init__(self, cluster: Gateways, folder: Path) -> None:
        self._cluster, self._folder = cluster, folder
        self._lives = 0
        self._filled = 0
        for topic in ("source", "target"):
            create_replicated_topic(cluster.addresses[0], topic, PARTITIONS, COPIES)
        self._source = Transactions(cluster.bootstrap, "source")

    def fill(self, transactions: int) -> None:
        """So many more transactions in the source, over its partitions in turn; each third is aborted."""
        for number in range(self._filled, self._filled + transactions):
            partition = number % PARTITIONS
            first = number * PER_TRANSACTION
            records = [
                Record(b"record %d" % n, b"key %d of %d" % (n % KEYS, partition))
                for n in range(first, first + PER_TRANSACTION)
            ]
            end = self._source.aborted if number % 4 == 2 else self._source.committed
            end(records, partition)
        self._filled += transactions

    def program(self, *stop: str | int | Path) -> Program:
        """The program, on one checkpoint in all its lives. stop: see `exactly_once_driver`."""
        self._lives += 1
        own = [self._cluster.bootstrap, "source", "target", str(self._folder), PER_BATCH]
        command = [sys.executable, "-m", "tests.spark.exactly_once_driver", *own, *map(str, stop)]
        return Program(command, self._folder / f"life-{self._lives}.log")

    def wait_for_a_batch(self, program: Program) -> None:
        """Until it has done one more micro-batch, or has ended."""
        folder = self._folder / "checkpoint" / "commits"
        before = set(folder.glob("[0-9]*"))
        deadline = time.monotonic() + END_SECONDS
        while program.returncode is None and set(folder.glob("[0-9]*")) == before:
            assert time.monotonic() < deadline, f"does not get on:\n{program.text[-4000:]}"
            time.sleep(0.01)

    def run_to_the_end(self) -> int:
        """Start it again until it has done all; how often it ended by itself before."""
        said = ""
        for failures in range(LIVES):
            with self.program() as program:
                if program.wait_for_end(END_SECONDS) == 0:
                    return failures
                said = program.text
        raise AssertionError(f"ended {LIVES} times:\n{said[-4000:]}")

    def compare(self) -> int:
        """Each committed record of the source is once in the target, each key's in their order; how many.

        Raises AssertionError that says what is not so.
        """
        wanted = _by_key(record for pairs in self._source.stable.values() for _, record in pairs)
        found = _by_key(record for pairs in self._each(committed_records) for _, record in pairs)
        for key in sorted(wanted.keys() | found.keys()):
            assert found[key] == wanted[key], f"{key!r}: {_difference(found[key], wanted[key])}"
        return sum(map(len, found.values()))

    @property
    def wanted(self) -> int:
        return sum(map(len, self._source.stable.values()))

    def written(self) -> int:
        """The target's records, also those that were aborted."""
        batches = [one for some in self._each(stored_batches) for one in some]
        return sum(len(records_of(one)) for one in batches if not one.attributes & CONTROL)

    def _each(self, read: Callable[[str, str, int], T]) -> list[T]:
        return [self._read(read, partition) for partition in range(PARTITIONS)]

    def _read(self, read: Callable[[str, str, int], T], partition: int) -> T:
        return read_at_leader(read, self._cluster.bootstrap, "target", partition)


def _by_key(records: Iterable[Record]) -> dict[bytes, list[bytes]]:
    found: dict[bytes, list[bytes]] = defaultdict(list)
    for record in records:
        found[record.key or b""].append(record.value or b"")
    return found


def _difference(found: Sequence[bytes], wanted: Sequence[bytes]) -> str:
    missing = [one for one in wanted if one not in set(found)]
    strange = [one for one in found if one not in set(wanted)]
    twice = sorted({one for one in found if found.count(one) > 1})
    return f"missing {missing}, not committed {strange}, twice {twice}, or in another order"
