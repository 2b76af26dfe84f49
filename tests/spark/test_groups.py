"""Group ids in Spark, and its deprecated way to offsets: a consumer on the driver that joins a group.

By default Spark's driver asks an admin client, its executors assign themselves partitions, and a group id is
a name and nothing more. With `useDeprecatedOffsetFetching` the driver's consumer joins the group of that id
for as long as the query runs. Nobody commits in either case: where a query goes on is in its checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kafka.protocol.admin import CreatePartitionsRequest, ListGroupsRequest
from kafka.protocol.metadata import FindCoordinatorRequest
from pyspark.sql import SparkSession

from tests.clients.sample import small_records
from tests.clients.stored import put
from tests.differential.groups import describe
from tests.differential.offsets import commit, fetch, offset
from tests.differential.wire import Connection, ask
from tests.spark.frames import as_records, numbered, read, read_stream
from tests.spark.test_streams import finish, sink, to_parquet

pytestmark = pytest.mark.slow

DEPRECATED = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"
COMMITTED = 3
"""What somebody else committed for the group before: it neither moves Spark nor is moved by it."""


@contextmanager
def offset_fetching(spark: SparkSession, *, deprecated: bool) -> Iterator[None]:
    spark.conf.set(DEPRECATED, str(deprecated).lower())
    try:
        yield
    finally:
        spark.conf.unset(DEPRECATED)


def committed_before(bootstrap: str, group: str, topic: str) -> None:
    with Connection(bootstrap) as connection:
        assert connection.ask(FindCoordinatorRequest(version=1, key=group, key_type=0)).error_code == 0
        answer = connection.ask(commit(group, {topic: [offset(0, COMMITTED)]}))
        assert answer.topics[0].partitions[0].error_code == 0


def committed_now(bootstrap: str, group: str) -> dict[int, int]:
    found = ask(bootstrap, fetch(group, None)).groups[0]
    return {one.partition_index: one.committed_offset for topic in found.topics for one in topic.partitions}


def members_by_group(bootstrap: str, prefix: str) -> dict[str, int]:
    """The groups whose ids begin so, and how many members each has."""
    with Connection(bootstrap) as connection:
        listed = connection.ask(ListGroupsRequest(version=5, states_filter=[], types_filter=[])).groups
        ids = [one.group_id for one in listed if one.group_id.startswith(prefix)]
        return {one.group_id: len(one.members) for one in connection.ask(describe(*ids)).groups}


def add_partition(bootstrap: str, topic: str, count: int) -> None:
    wanted = CreatePartitionsRequest.CreatePartitionsTopic(name=topic, count=count, assignments=None)
    answer = ask(bootstrap, CreatePartitionsRequest(version=3, topics=[wanted], timeout_ms=10_000))
    assert answer.results[0].error_code == 0, answer


@pytest.mark.parametrize("option", ["kafka.group.id", "groupIdPrefix"])
def test_a_stream_whose_driver_is_in_a_group(
    spark: SparkSession, bootstrap: str, new_topic: Callable[..., str], tmp_path: Path, option: str
) -> None:
    """Over a restart of the query, with a partition that came between: each record once."""
    topic = new_topic(partitions=2)
    name = f"group-of-{topic}"
    if option == "kafka.group.id":
        committed_before(bootstrap, name, topic)
    wanted = small_records(60)
    options = {"subscribe": topic, "startingOffsets": "earliest", option: name}
    with offset_fetching(spark, deprecated=True):
        for partition in (0, 1):
            put(bootstrap, topic, wanted[:20], partition=partition)
        frame = read_stream(spark, bootstrap, **options)
        query = to_parquet(frame, tmp_path, processingTime="50 milliseconds")
        try:
            query.processAllAvailable()
            put(bootstrap, topic, wanted[20:40], partition=1)
            query.processAllAvailable()
            groups = members_by_group(bootstrap, name)
            assert list(groups.values()) == [1]  # the driver
            assert option == "groupIdPrefix" or list(groups) == [name]
        finally:
            query.stop()
        assert sum(members_by_group(bootstrap, name).values()) == 0
        expected = {(topic, 0): numbered(wanted[:20]), (topic, 1): numbered(wanted[:40])}
        assert as_records(sink(spark, tmp_path)) == expected
        add_partition(bootstrap, topic, 3)
        put(bootstrap, topic, wanted[:10], partition=2)
        put(bootstrap, topic, wanted[20:], partition=0)
        finish(to_parquet(read_stream(spark, bootstrap, **options), tmp_path, availableNow=True))
    expected |= {(topic, 0): numbered(wanted), (topic, 2): numbered(wanted[:10])}
    assert as_records(sink(spark, tmp_path)) == expected
    if option == "kafka.group.id":
        assert committed_now(bootstrap, name) == {0: COMMITTED}


def test_batches_with_and_without_a_group_id(
    spark: SparkSession, bootstrap: str, new_topic: Callable[..., str]
) -> None:
    """Both ways to offsets give the same records, by pattern and time, too; the group is but a name."""
    topic = new_topic(partitions=2)
    name = f"group-of-{topic}"
    committed_before(bootstrap, name, topic)
    wanted = small_records(30)
    for partition in (0, 1):
        put(bootstrap, topic, wanted, partition=partition)
    expected = {(topic, partition): numbered(wanted) for partition in (0, 1)}
    later = {"subscribePattern": f"{topic}.*", "startingTimestamp": wanted[10].timestamp}
    with offset_fetching(spark, deprecated=True):
        for options in ({"kafka.group.id": name}, {}):
            assert as_records(read(spark, bootstrap, subscribe=topic, **options)) == expected
        found = as_records(read(spark, bootstrap, **later, groupIdPrefix=name))
        assert found == {key: numbered(wanted[10:], 10) for key in expected}
    with offset_fetching(spark, deprecated=False):
        frame = read(spark, bootstrap, subscribe=topic, **{"kafka.group.id": name})
        assert as_records(frame) == expected
    assert committed_now(bootstrap, name) == {0: COMMITTED}
