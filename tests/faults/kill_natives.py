"""Native and Kafka producers write one topic while everything is killed: `make kills-natives SECONDS=600`.

A tower, three stores and a gateway; three native producers, two of whose records count when two stores have
them, and two Kafka producers. One of all these gets a SIGKILL again and again and is started anew; a native
producer has another address then, and a Kafka producer another id. At the end the topic has each acknowledged
record once, those of an address in order and without a gap, and a native consumer that comes late hears the
same as is in the topic.

A Kafka consumer reads the topic all the while and is killed, too; so is, with `--spark`, a Spark stream into
files. Both have each record once in the end.

The values of the topic are published besides: a native consumer that reads them all the while, and one that
comes late, get each offset once, in order, as Kafka clients have it.

With `--c-programs DIR`, where Dafka's own programs in C are, three of their producers and two of their
consumers do the same beside ours. With `--drop` stores drop what is in the topic at once, and no native
consumer comes late.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Protocol

import trio

import dafka
from tests.clients.stored import create_replicated_topic, stored_records
from tests.differential.batches import Record
from tests.faults.c_programs import CReader, CSender
from tests.faults.checker import Problem
from tests.faults.killed_readers import KafkaReader, SparkReader
from tests.faults.killed_senders import DONE_SECONDS, KafkaSender, NativeSender
from tests.faults.native_judge import ADDRESS, Sent, judge
from tests.faults.native_reader import NativeReader
from tests.peers.mesh import MeshCluster

TOPIC, SUBJECT, PARTITIONS = "mixed", "sensors", 3
STORES_OF_SENDERS: Final = (1, 2, 2)
"""By native producer: how many stores have to have a record before it counts."""
KAFKA_PRODUCERS: Final = 2
C_PRODUCERS: Final = 3
PAUSE_SECONDS: Final = 1.0
"""The longest between two kills."""
PROBLEMS_TOLD: Final = 10
"""Of each kind."""

Stored = dict[int, list[tuple[int, Record]]]
Reader = NativeReader | CReader


class Victim(Protocol):
    """A process that may be killed and started again."""

    def kill9(self) -> None: ...

    def start(self) -> object: ...


class Kills:
    """One mesh, and who is killed on it."""

    def __init__(
        self,
        directory: Path,
        seed: int,
        *,
        c_programs: Path | None = None,
        drop: bool = False,
        with_spark: bool = False,
    ) -> None:
        self.directory = directory
        self._c_programs, self._drop, self._with_spark = c_programs, drop, with_spark
        self.killed: Counter[str] = Counter()
        self.records: Counter[str] = Counter()
        """In the topic at the end, by who wrote them."""
        self._killed_readers: list[KafkaReader | SparkReader] = []
        self._random = random.Random(seed)

    def run(self, enough: Callable[[], bool]) -> list[Problem]:
        """Kill until it is enough, then judge."""
        with MeshCluster(self.directory / "mesh") as mesh, ExitStack() as stack:
            configs = {"dafka.native.subject": SUBJECT, "dafka.publish": "values"}
            if self._drop:
                configs["dafka.native.retention.ms"] = "0"
            create_replicated_topic(mesh.bootstrap, TOPIC, PARTITIONS, 3, **configs)
            senders = [
                NativeSender(mesh.tower.address, SUBJECT, stores, self.directory, number)
                for number, stores in enumerate(STORES_OF_SENDERS)
            ]
            writers = [
                KafkaSender(mesh.bootstrap, TOPIC, PARTITIONS, self.directory, number)
                for number in range(KAFKA_PRODUCERS)
            ]
            in_c = self._in_c(mesh)
            live = self._readers(mesh, stack)
            victims = self._victims(mesh, live, stack)
            victims |= {"native producer": senders, "Kafka producer": writers, "producer in C": in_c}
            victims = {kind: members for kind, members in victims.items() if members}
            try:
                for one in (*senders, *writers, *in_c, *self._killed_readers):
                    one.start()
                while not enough():
                    time.sleep(self._random.random() * PAUSE_SECONDS)
                    self._kill_one(victims)
                problems = [problem for sender in (*senders, *writers) for problem in sender.end()]
            finally:
                for sender in (*senders, *writers):
                    sender.kill9()
            sent = Sent(lines=[line for sender in in_c for line in sender.rest()])
            for sender in senders:
                sent.native |= sender.acknowledged()
            for writer in writers:
                sent.kafka |= writer.acknowledged()
            stored = self._settled(mesh, sent)
            for one in in_c:
                one.kill9()
            problems += judge(stored, sent)
            for reader in self._killed_readers:
                problems += reader.misread(stored, DONE_SECONDS)
            late = self._readers(mesh, stack)
            return [*problems, *self._misheard(mesh, stored, live, late)]

    def _misheard(
        self, mesh: MeshCluster, stored: Stored, live: Sequence[Reader], late: Sequence[Reader]
    ) -> Iterator[Problem]:
        if not self._drop:
            yield from self._heard_late(mesh, stored)
        for name, readers in (("live", live), ("late", late)):
            for reader in readers:
                yield from _misread(name, reader, stored)

    def _in_c(self, mesh: MeshCluster) -> list[CSender]:
        if self._c_programs is None:
            return []
        tower = mesh.tower.address
        return [CSender(self._c_programs, tower, SUBJECT, number) for number in range(C_PRODUCERS)]

    def _readers(self, mesh: MeshCluster, stack: ExitStack) -> list[Reader]:
        """Of the topic's values, from the beginning."""
        subject = f"{TOPIC}.values"
        readers: list[Reader] = [NativeReader(subject, str(mesh.tower.address))]
        if self._c_programs is not None:
            readers.append(CReader(self._c_programs, mesh.tower.address, subject))
        for reader in readers:
            stack.enter_context(reader)
        return readers

    def _victims(
        self, mesh: MeshCluster, live: Sequence[Reader], stack: ExitStack
    ) -> dict[str, Sequence[Victim]]:
        """Servers and readers by kind; the readers that are killed are made here."""
        kafka = KafkaReader(mesh.bootstrap, TOPIC, PARTITIONS, self.directory)
        stack.callback(kafka.kill9)
        victims: dict[str, Sequence[Victim]] = {
            "gateway": (mesh.gateway,),
            "store": mesh.stores,
            "tower": (mesh.tower,),
            "consumer in C": [reader for reader in live if isinstance(reader, CReader)],
            "Kafka consumer": (kafka,),
        }
        self._killed_readers = [kafka]
        if self._with_spark:
            spark = SparkReader(mesh.bootstrap, TOPIC, self.directory)
            stack.callback(spark.stop)
            victims["Spark stream"] = (spark,)
            self._killed_readers.append(spark)
        return victims

    def _kill_one(self, victims: Mapping[str, Sequence[Victim]]) -> None:
        kind = self._random.choice(list(victims))
        victim = self._random.choice(victims[kind])
        self.killed[kind] += 1
        victim.kill9()
        time.sleep(self._random.random() * 0.2)
        victim.start()

    def _settled(self, mesh: MeshCluster, sent: Sent) -> Stored:
        """The topic, once it has at least what was acknowledged, or time is over."""
        deadline = time.monotonic() + DONE_SECONDS
        while True:
            stored = {n: stored_records(mesh.bootstrap, TOPIC, n) for n in range(PARTITIONS)}
            found = by_address(stored)
            native = sum(map(len, found.values()))
            self.records = Counter(native=native, kafka=sum(map(len, stored.values())) - native)
            came = all(len(found.get(one, ())) >= count for one, count in sent.native.items())
            if sent.lines and came:
                values = {record.value for pairs in stored.values() for _, record in pairs}
                came = values.issuperset(sent.lines)
            if came or time.monotonic() > deadline:
                return stored
            time.sleep(0.2)

    def _heard_late(self, mesh: MeshCluster, stored: Stored) -> list[Problem]:
        """A native consumer hears all that is in the topic, of each address in the same order."""
        wanted = by_address(stored)
        heard = trio.run(self._heard, mesh, wanted)
        return [
            Problem("lost", f"a native consumer hears another thing of {address}")
            for address, contents in wanted.items()
            if heard.get(address, [])[: len(contents)] != contents
        ]

    async def _heard(self, mesh: MeshCluster, wanted: Mapping[str, list[bytes]]) -> dict[str, list[bytes]]:
        found: dict[str, list[bytes]] = defaultdict(list)
        async with dafka.Consumer(SUBJECT, from_beginning=True, tower=str(mesh.tower.address)) as records:
            with trio.move_on_after(DONE_SECONDS):
                while any(len(found[address]) < len(contents) for address, contents in wanted.items()):
                    record = await records.receive()
                    found[record.address].append(record.content)
        return found


def _misread(name: str, reader: Reader, stored: Stored) -> Iterator[Problem]:
    """What a native reader of the topic's values has otherwise than Kafka clients."""
    name = f"{name} {type(reader).__name__}"
    expected = {
        partition: [record.value or b"" for _, record in pairs] for partition, pairs in stored.items()
    }
    if not reader.has(expected, DONE_SECONDS):
        for partition, values in expected.items():
            found = reader.values[partition]
            common = next((n for n, (a, b) in enumerate(zip(found, values, strict=False)) if a != b), -1)
            yield Problem(
                "misread",
                f"the {name} has {len(found)} of {len(values)} offsets of partition "
                f"{partition}, and the first other value at {common}",
            )
    for wrong in reader.wrong[:5]:
        yield Problem("misread", f"the {name}: {wrong}")


def by_address(stored: Stored) -> dict[str, list[bytes]]:
    """The contents of each address in the topic, in their order."""
    found: dict[str, list[bytes]] = defaultdict(list)
    for pairs in stored.values():
        for _, record in pairs:
            address = dict(record.headers).get(ADDRESS)
            if address is not None:
                found[address.decode()].append(record.value or b"")
    return found


def some_of_each(problems: Iterable[Problem]) -> Iterator[str]:
    """How many of each kind, and the first of them."""
    kinds: dict[str, list[Problem]] = defaultdict(list)
    for problem in problems:
        kinds[problem.kind].append(problem)
    for kind, found in kinds.items():
        yield f"{len(found)} x {kind}, the first of them:"
        yield from (f"  {problem.detail}" for problem in found[:PROBLEMS_TOLD])


def main() -> int:
    """Kill for so long, tell what was found; 1 if something is wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--c-programs", type=Path, metavar="DIR", help="where Dafka's programs in C are")
    parser.add_argument("--spark", action="store_true", help="a Spark stream reads the topic, too")
    parser.add_argument("--drop", action="store_true", help="stores drop what is in the topic")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 31))
    options = parser.parse_args()
    end = time.monotonic() + options.seconds
    with tempfile.TemporaryDirectory(prefix="kill-natives-", ignore_cleanup_errors=True) as name:
        kills = Kills(
            Path(name),
            options.seed,
            c_programs=options.c_programs,
            drop=options.drop,
            with_spark=options.spark,
        )
        problems = kills.run(lambda: time.monotonic() > end)
        killed = ", ".join(f"{count} x {kind}" for kind, count in sorted(kills.killed.items()))
        print(f"seed {options.seed}: killed {killed}")
        counts = kills.records
        print(f"in the topic: {counts['native']} native records, {counts['kafka']} of Kafka producers")
        for told in some_of_each(problems):
            print(told)
        print(f"{len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
