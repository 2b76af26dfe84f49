"""Runs of the replay job in this process, and what must be in a target afterwards."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from dafka_pipeline.kafka.options import KafkaOptions
from dafka_pipeline.producing import POSITION_HEADER, Timing, publisher
from dafka_pipeline.producing.plan import NO
from dafka_pipeline.replay import job
from dafka_pipeline.replay.job import Outcome, Replay, ReplaySettings
from dafka_pipeline.replay.selection import Selection
from dafka_pipeline.running.report import Report
from dafka_pipeline.running.stopping import Stop
from dafka_pipeline.table.location import Location
from tests.clients.stored import committed_records, stored_batches
from tests.differential.batches import TRANSACTIONAL, Record
from tests.pipelines.dying import Killed, dying_at

QUICK = Timing(lease=20, message=3, stall=2, spread=1, clocks=0.5)
PATIENCE_SECONDS = 30.0
FOREVER = str(2**63 - 1)


class OnWords(Report):
    """A report that does something when certain words are said, before whoever said them goes on."""

    def __init__(self, words: str, act: Callable[[], None]) -> None:
        super().__init__("replay", out=io.StringIO())
        self._words = words
        self._act = act
        self.acted = 0

    def say(self, text: str, **facts: Any) -> None:
        super().say(text, **facts)
        if self._words in text:
            self.acted += 1
            self._act()


def replayer(
    spark: SparkSession,
    bootstrap: str,
    archive: Path,
    targets: Mapping[str, str],
    *,
    stop: Stop | None = None,
    report: Report | None = None,
    version: int | None = None,
    selected: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Replay:
    """The job, without transactions unless `transactions` is given. selected: more of its `Selection`."""
    made = ReplaySettings(
        location=Location.of(str(archive)),
        version=version,
        selection=Selection(dict(targets), **(selected or {})),
        **{"timing": QUICK, "transactions": NO, **settings},
    )
    return Replay(
        spark,
        KafkaOptions(bootstrap),
        made,
        report or Report("replay", out=io.StringIO()),
        stop or Stop(),
        PATIENCE_SECONDS,
    )


def replay(
    spark: SparkSession, bootstrap: str, archive: Path, targets: Mapping[str, str], **settings: Any
) -> Outcome:
    """One whole call; its audit finds the sides equal, where there is one."""
    outcome = replayer(spark, bootstrap, archive, targets, **settings).run()
    assert outcome.verdict is None or outcome.verdict.equal, outcome.notes
    return outcome


@contextmanager
def killed_at(place: str, time: int = 1) -> Iterator[None]:
    """The driver dies at the fail point, at that time of passing it."""
    with dying_at(place, time, (publisher, job)), pytest.raises(Killed):
        yield


def own(stream: str, records: Sequence[tuple[int, Record]]) -> list[Record]:
    """Archived (offset, record)s as a replay into the same partitions sends them."""
    return [
        Record(
            one.value, one.key, one.timestamp, (*one.headers, (POSITION_HEADER, f"{stream}|{at}".encode()))
        )
        for at, one in records
    ]


def assert_replayed(
    bootstrap: str, stream: str, source: str, target: str, partitions: int = 1, skip: int = 0
) -> None:
    """The target holds the source's records, each once, in order, at offsets without a hole.

    skip: records of others that the target's partitions had before.
    """
    for partition in range(partitions):
        expected = own(stream, committed_records(bootstrap, source, partition))
        assert_holds(bootstrap, target, expected, partition, skip)


def assert_holds(
    bootstrap: str, topic: str, expected: Sequence[Record], partition: int = 0, skip: int = 0
) -> None:
    """These records are in the partition, in this order; where no transaction wrote them, at offsets without
    a hole.

    skip: records that were there before.
    """
    found = committed_records(bootstrap, topic, partition)[skip:]
    assert [record for _, record in found] == list(expected)
    if not any(one.attributes & TRANSACTIONAL for one in stored_batches(bootstrap, topic, partition)):
        assert found == list(enumerate(expected, skip))
