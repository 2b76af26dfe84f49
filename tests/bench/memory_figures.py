"""What groups, offsets, partitions and connections take of our memory, by differences of what is resident.

Of Apache Kafka nothing can be said this way: its heap is taken from the start.
"""

from collections.abc import Iterator
from dataclasses import replace

from confluent_kafka import Producer

from tests.bench import clients
from tests.bench.measurement import Context, Figure, Measurement, NotHere
from tests.bench.wire import messages
from tests.bench.wire.connection import Connection
from tests.bench.wire.groups import Group, Member, await_coordinator, form
from tests.peers.standalone import Standalone
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode

PARTITIONS = 5_000
PARTITIONS_OF_A_TOPIC = 50
GROUPS = 1_000
MEMBERS = 3
# Of each group; and so many in one commit.
OFFSETS = 200
NO_GENERATION = -1
# Commits of one group, before those that are counted: the store's memtables are as large as they become then.
BYTES_OF_MEMTABLES = 24 << 20
BYTES_OF_AN_OFFSET = 110
# What keeps recent batches is a bound of its own, and no part of this: next to nothing here.
TAIL_CACHE = ("--tail-cache-bytes", f"{1 << 20}")
# What is needed while groups form is not kept: few at a time.
FORMED_AT_ONCE = 100


def memory(context: Context) -> Iterator[Measurement]:
    if not isinstance(context.server, Standalone):
        raise NotHere("its memory is taken from the start, whatever is in it")
    with Standalone(None, *context.server.arguments, *TAIL_CACHE) as server:
        for measurement in _measured(replace(context, server=server), server):
            yield replace(measurement, peak_rss=server.peak_rss_bytes)


def _measured(context: Context, server: Standalone) -> Iterator[Measurement]:
    def per(count: int, before: int, what: str) -> Measurement:
        return Measurement(f"memory of {what}", "bytes", (server.rss_bytes - before) / count, False)

    partitions = context.times(PARTITIONS // PARTITIONS_OF_A_TOPIC) * PARTITIONS_OF_A_TOPIC
    topics = [f"memory-{number}" for number in range(partitions // PARTITIONS_OF_A_TOPIC)]
    clients.create_topics(context.bootstrap, ["memory"], OFFSETS)
    await_coordinator(context.bootstrap, "memory")

    before = server.rss_bytes
    for topic in topics:
        clients.create_topics(context.bootstrap, [topic], PARTITIONS_OF_A_TOPIC)
    yield per(partitions, before, "a partition")
    before = server.rss_bytes
    _write_to_each(context.bootstrap, topics)
    yield per(partitions, before, "a partition that was written to, in addition")

    # What is freed is used again: nothing that was measured ends before the last one.
    names = [f"memory-{number}" for number in range(context.times(GROUPS))]
    connection = Connection(context.bootstrap)
    for number in range(int(BYTES_OF_MEMTABLES * context.scale) // (OFFSETS * BYTES_OF_AN_OFFSET)):
        _commit(connection, "offsets", number)
    before = server.rss_bytes
    for name in names:
        _commit(connection, f"offsets-{name}", 0)
    yield per(len(names) * OFFSETS, before, "a committed offset")
    connection.close()

    before = server.rss_bytes
    groups = [_group(context.bootstrap, name) for name in names]
    yield per(len(names) * MEMBERS, before, "a connection")
    before = server.rss_bytes
    for first in range(0, len(groups), FORMED_AT_ONCE):
        form(groups[first : first + FORMED_AT_ONCE])
    yield per(len(groups), before, f"a group of {MEMBERS}")

    for group in groups:
        for member in group.members:
            member.connection.close()


def _write_to_each(bootstrap: str, topics: list[str]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for topic in topics:
        for index in range(PARTITIONS_OF_A_TOPIC):
            producer.produce(topic, value=bytes(100), partition=index)
        producer.flush()


def _group(bootstrap: str, name: str) -> Group:
    """Members who have asked something, and have not joined."""
    members = [Member(Connection(bootstrap), name, "memory") for _ in range(MEMBERS)]
    for member in members:
        member.connection.ask(messages.find_coordinator(name))
    return Group(name, "memory", members)


def _commit(connection: Connection, group_id: str, offset: int) -> None:
    """As an administrator, or a consumer that chooses its partitions itself."""
    offsets = dict.fromkeys(range(OFFSETS), offset)
    answer = connection.ask(messages.offset_commit(group_id, "", NO_GENERATION, "memory", offsets))
    values = messages.decoded(ApiKey.OFFSET_COMMIT, messages.OFFSET_COMMIT_VERSION, answer)
    errors = [found["error_code"] for topic in values["topics"] for found in topic["partitions"]]
    if errors != [ErrorCode.NONE] * OFFSETS:
        raise AssertionError(f"a commit was answered with {set(errors)}")


FIGURES = {"memory-of-groups": Figure(memory, warm=False)}
