"""A disk that is full, and a server that lost all it had: nothing that was committed suffers, and the same
command goes on, or says what to do."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dafka_pipeline.archive import job
from dafka_pipeline.failures import Refused
from dafka_pipeline.spark.errors import explain_spark
from dafka_pipeline.table.archive import DELTA, PARQUET
from tests.clients.sample import small_records
from tests.clients.stored import committed_records, create_topic, put
from tests.differential.batches import Record
from tests.differential.servers import our_server
from tests.faults.disks import SmallDisk
from tests.pipelines.archiving import archive_once
from tests.pipelines.dumps import archive_rows, plain_rows, topic_rows
from tests.pipelines.replaying import own, replay
from tests.pipelines.transforming import exactly_once, keyed_records, numbers_in, numbers_of

pytestmark = [pytest.mark.slow, pytest.mark.matrix, pytest.mark.long]
DISK_BYTES = 4 << 20
NewTopic = Callable[..., str]
READERS = {DELTA: archive_rows, PARQUET: plain_rows}


def large_records(seed: int) -> list[Record]:
    """Two megabytes that no codec makes smaller."""
    dice = random.Random(seed)
    return [Record(dice.randbytes(20_000), b"%d" % n, n) for n in range(100)]


@contextmanager
def on_a_full_disk() -> Iterator[None]:
    """The block fails, and what the command says then names the cause."""
    with pytest.raises(Exception, match=r"\w") as failure:
        yield
    assert "A disk is full" in str(explain_spark(failure.value))


@pytest.mark.parametrize("kept_as", [DELTA, PARQUET])
@pytest.mark.parametrize("left", [0, 10_000, 1_000_000])
def test_the_archive_s_disk_is_full(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic, tmp_path: Path, kept_as: str, left: int
) -> None:
    """Before the fence, in it, or in the midst of a file."""
    topic = new_topic(2)
    put(bootstrap, topic, small_records(50))
    with SmallDisk(tmp_path / "disk", DISK_BYTES) as disk:
        archive = disk.path / "a"
        archive_once(spark, bootstrap, archive, topic, kept_as=kept_as)
        before = READERS[kept_as](archive)
        put(bootstrap, topic, large_records(1), partition=1, per_batch=20)
        disk.fill(leave=left)
        with on_a_full_disk():
            archive_once(spark, bootstrap, archive, topic)
        assert READERS[kept_as](archive) == before
        disk.empty()
        archive_once(spark, bootstrap, archive, topic)
        assert READERS[kept_as](archive) == topic_rows(bootstrap, topic, 2)


@pytest.mark.parametrize("left", [0, 30_000])
def test_a_transform_s_disk_is_full(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic, tmp_path: Path, left: int
) -> None:
    source, target = new_topic(1, "-source"), new_topic(2, "-target")
    records = keyed_records(60)
    put(bootstrap, source, records[:20])
    with SmallDisk(tmp_path / "disk", DISK_BYTES) as disk:
        call = (spark, bootstrap, "numbers_per_key", source, target, disk.path / "checkpoint")
        exactly_once(*call)
        put(bootstrap, source, records[20:])
        disk.fill(leave=left)
        with on_a_full_disk():
            exactly_once(*call)
        disk.empty()
        exactly_once(*call)
    assert numbers_in(bootstrap, target, 2) == numbers_of(records)


def test_the_server_lost_all_it_had(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its data directory is deleted and the topic made again: refused, the archive untouched; what the
    archive has comes back by a replay."""
    archive = tmp_path / "a"
    monkeypatch.setattr(job, "LOOK_AGAIN_SECONDS", 0.0)
    monkeypatch.setattr(job, "SETTLE_SECONDS", 0.0)
    records = small_records(40)
    with our_server(directory=tmp_path / "one") as server:
        topic = create_topic(server.bootstrap, "t", 1)
        put(server.bootstrap, topic, records)
        stored = committed_records(server.bootstrap, topic)
        archive_once(spark, server.bootstrap, archive, topic)
    before = archive_rows(archive)
    with our_server(directory=tmp_path / "two") as server:
        create_topic(server.bootstrap, topic, 1)
        put(server.bootstrap, topic, small_records(60, "later"))
        with pytest.raises(Refused, match="was deleted and made again"):
            archive_once(spark, server.bootstrap, archive, topic)
        assert archive_rows(archive) == before
        replay(spark, server.bootstrap, archive, {topic: "restored"}, create=True, stream="s")
        assert [one for _, one in committed_records(server.bootstrap, "restored")] == own("s", stored)
