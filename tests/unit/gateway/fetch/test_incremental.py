"""Fetches that go on with a session: what they tell, what they read, and what they leave behind."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from gateway.fetch import incremental
from gateway.fetch.session_cache import FetchSessionCache
from gateway.fetch.sessions import FetchSessions
from gateway.log.idempotence.state import ProducerState
from gateway.log.partition import Partition, PartitionState
from gateway.log.topic import Topic
from tests.unit.gateway.fetch.consumer import BY_ID, BY_NAME, NEVER_MS, SIZE, Answer, Consumer, put, watchers
from tests.unit.gateway.fetch.test_full import COLD
from tests.unit.gateway.log.fake_log import FakeLog
from tests.unit.gateway.log.test_cold import lookups
from tests.unit.gateway.log.test_partition_appends import logged
from wireproto.kafka.errors import ErrorCode

NONE = int(ErrorCode.NONE)
UNKNOWN = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
UNKNOWN_ID = int(ErrorCode.UNKNOWN_TOPIC_ID)
INCONSISTENT = int(ErrorCode.INCONSISTENT_TOPIC_ID)
NOT_FOUND = int(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
WRONG_EPOCH = int(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
WRONG_KIND = int(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
VERSIONS = pytest.mark.parametrize("version", [7, BY_NAME, BY_ID, 18])


# what is told ---------------------------------------------------------------------------------------------


@VERSIONS
def test_only_what_is_new_is_told(version: int) -> None:
    async def body(log: FakeLog) -> None:
        consumer = Consumer(log, version)
        await put(log, 1)
        answer = await consumer.begin()
        assert answer.told == [(0, NONE, 0, 0), (1, NONE, 1, 1), (2, NONE, 0, 0)]
        assert set(answer.topics) == {consumer.key}
        assert (await consumer.ask([(1, 1)])).told == []
        await put(log, 2)
        answer = await consumer.ask()
        assert (answer.told, answer.topics) == ([(2, NONE, 1, 1)], [consumer.key])
        assert (await consumer.ask()).told == [(2, NONE, 1, 1)]  # not named again: it is told again
        await put(log, 0, 1)
        assert (await consumer.ask([(2, 1)])).told == [(0, NONE, 1, 1), (1, NONE, 2, 1)]
        assert (await consumer.ask([(0, 1), (1, 2)])).told == []
        assert consumer.epoch == 6
        assert watchers(log) == 3

    logged(body, partitions=3)


def test_idle_partitions_cost_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two hundred partitions, one of which has something: one is looked at."""

    async def body(log: FakeLog) -> None:
        consumer = Consumer(log)
        await consumer.begin()
        await consumer.ask()
        looked: list[int] = []
        check = Partition.check_fetch_offset

        def watched(partition: Partition, offset: int, *, committed: bool) -> ErrorCode:
            looked.append(partition.index)
            return check(partition, offset, committed=committed)

        monkeypatch.setattr(Partition, "check_fetch_offset", watched)
        assert (await consumer.ask(max_wait_ms=10)).told == []
        assert looked == []
        await put(log, 77)
        assert (await consumer.ask()).told == [(77, NONE, 1, 1)]
        assert looked == [77]
        assert (await consumer.ask([(77, 1)])).told == []
        assert looked == [77, 77]
        await put(log, 77, 5)
        assert (await consumer.ask()).batches == {5: 1, 77: 1}
        assert looked == [77, 77, 5, 77]

    logged(body, partitions=200)


def test_small_answers_starve_no_partition() -> None:
    async def body(log: FakeLog) -> None:
        await put(log, 0, 1, 2, 0, 1, 2)
        consumer = Consumer(log)
        offsets = [0, 0, 0]
        came: list[int] = []

        def take(answer: Answer) -> list[tuple[int, int]]:
            ((index, batches),) = answer.batches.items()
            assert batches == 1
            offsets[index] += 1
            came.append(index)
            return [(index, offsets[index])]

        named = take(await consumer.begin(max_bytes=1))
        for _ in range(5):
            named = take(await consumer.ask(named, max_bytes=1))
        # The first answer leaves the order as it was named.
        assert came == [0, 0, 1, 2, 1, 2]
        assert (await consumer.ask(named)).batches == {}

    logged(body, partitions=3)


def test_a_partition_without_room_is_told_its_high_watermark_once() -> None:
    async def body(log: FakeLog) -> None:
        consumer = Consumer(log)
        await consumer.begin()
        await consumer.ask()
        await put(log, 0, 1)
        assert (await consumer.ask(max_bytes=1)).told == [(0, NONE, 1, 1), (1, NONE, 1, 0)]
        # Now 0 comes last.
        assert (await consumer.ask([(0, 1)], max_bytes=1)).told == [(1, NONE, 1, 1)]

    logged(body, partitions=2)


def test_a_forgotten_partition_is_told_no_more() -> None:
    async def body(log: FakeLog) -> None:
        consumer = Consumer(log)
        await consumer.begin()
        await consumer.ask()
        assert (await consumer.ask(forget=[1, 1, 9])).told == []
        await put(log, 0, 1)
        assert (await consumer.ask()).told == [(0, NONE, 1, 1)]
        assert (await consumer.ask([(0, 1), (1, 0)], forget=[2])).told == [(1, NONE, 1, 1)]
        assert watchers(log) == 1

    logged(body, partitions=3)


def test_a_session_of_which_nothing_is_left_ends() -> None:
    async def body(log: FakeLog) -> None:
        consumer = Consumer(log)
        await put(log, 0)
        await consumer.begin()
        answer = await consumer.ask([(0, 0)], forget=[0, 1])
        assert (answer.error, answer.session_id, answer.told) == (NONE, 0, [(0, NONE, 1, 1)])
        assert len(log.broker.fetch_sessions.cache) == watchers(log) == 0

    logged(body, partitions=2)


def test_the_start_of_the_log_is_told_when_it_moves() -> None:
    async def body(log: FakeLog) -> None:
        await put(log, 0, 0, 1)
        consumer = Consumer(log)
        await consumer.begin(offset=2)
        await consumer.ask([(0, 2), (1, 1)])
        assert (await consumer.ask()).told == []
        log.topic.partitions[0].start_moved(1, ())
        answer = await consumer.ask()
        assert (answer.told, answer.starts) == ([(0, NONE, 2, 0)], [1])
        log.topic.partitions[1].set_end(5)
        log.topic.partitions[1].start_moved(3, ())
        answer = await consumer.ask()
        assert answer.told == [(1, int(ErrorCode.OFFSET_OUT_OF_RANGE), -1, 0)]

    logged(body, partitions=2)


def test_errors_are_told_each_time_and_what_follows_them_too() -> None:
    async def body(log: FakeLog) -> None:
        consumer = Consumer(log)
        await consumer.begin()
        await consumer.ask()
        partition = log.topic.partitions[1]
        partition.fail("a test")
        for _ in range(2):
            answer = await consumer.ask()
            assert answer.told == [(1, int(ErrorCode.NOT_LEADER_OR_FOLLOWER), -1, 0)]
        partition.begin_serving(partition.producers.state)
        assert partition.state is PartitionState.READY
        assert (await consumer.ask()).told == [(1, NONE, 0, 0)]
        assert (await consumer.ask()).told == []

    logged(body, partitions=2)


def test_cold_partitions_are_read_from_the_store() -> None:
    async def body(log: FakeLog) -> None:
        lookups(log)
        consumer = Consumer(log)
        await consumer.begin(partition_bytes=9 * SIZE)
        await put(log, 0, 1, 1)
        assert (await consumer.ask()).told == [(0, NONE, 1, 1), (1, NONE, 2, 2)]
        assert (await consumer.ask([(0, 1), (1, 1)], partition_bytes=9 * SIZE)).told == [(1, NONE, 2, 1)]
        assert (await consumer.ask([(1, 2)])).told == []

    logged(body, partitions=2, tail_cache_bytes=1)


# which session --------------------------------------------------------------------------------------------


def test_who_knows_no_session_or_the_wrong_epoch_is_told() -> None:
    async def body(log: FakeLog) -> None:
        await put(log, 0)
        consumer = Consumer(log)
        await consumer.begin()
        session = consumer.session_id
        for version, session_id, epoch, error in [
            (BY_NAME, session + 1, 1, NOT_FOUND),
            (BY_NAME, 0, 1, NOT_FOUND),
            (BY_NAME, session, 2, WRONG_EPOCH),
            (BY_NAME, session, -2, WRONG_EPOCH),
            (BY_ID, session, 1, WRONG_KIND),
        ]:
            other = Consumer(log, version)
            answer = await other.ask([(0, 0)], session_id=session_id, epoch=epoch)
            assert (answer.error, answer.session_id, answer.told) == (error, 0, [])
        assert (await consumer.ask()).error == NONE

    logged(body)


@pytest.mark.parametrize("epoch", [0, -1])
def test_a_fetch_of_all_partitions_ends_the_session_that_it_names(epoch: int) -> None:
    async def body(log: FakeLog) -> None:
        consumer = Consumer(log)
        await consumer.begin()
        await consumer.ask()
        old = consumer.session_id
        answer = await consumer.ask([(0, 0)], epoch=epoch)
        assert answer.error == NONE
        assert bool(answer.session_id) is (epoch == 0)
        assert answer.session_id != old
        assert len(log.broker.fetch_sessions.cache) == (epoch == 0)
        assert watchers(log) == 0
        assert (await Consumer(log).ask(session_id=old, epoch=2)).error == NOT_FOUND

    logged(body)


@pytest.mark.parametrize("version", [4, 6])
def test_before_version_7_there_are_no_sessions(version: int) -> None:
    async def body(log: FakeLog) -> None:
        consumer = Consumer(log, version)
        assert (await consumer.ask([(0, 0)], epoch=-1)).told == [(0, NONE, 0, 0)]
        assert len(log.broker.fetch_sessions.cache) == 0

    logged(body)


def test_without_a_place_every_fetch_names_all() -> None:
    async def body(log: FakeLog) -> None:
        log.broker.fetch_sessions = FetchSessions(slots=1)
        first, second = Consumer(log), Consumer(log)
        await first.begin()
        await first.ask()
        for _ in range(2):
            answer = await second.ask([(0, 0), (1, 0)])
            assert (answer.error, answer.session_id) == (NONE, 0)
            assert answer.told == [(0, NONE, 0, 0), (1, NONE, 0, 0)]
        await trio.sleep(121)
        assert (await second.ask([(0, 0), (1, 0)])).session_id
        assert watchers(log) == 0  # nobody is called for the one that went
        assert (await first.ask()).error == NOT_FOUND

    logged(body, partitions=2)


def test_a_session_that_is_used_keeps_its_place() -> None:
    async def body(log: FakeLog) -> None:
        log.broker.fetch_sessions = FetchSessions(slots=1)
        consumer = Consumer(log)
        await consumer.begin()
        for _ in range(3):
            await trio.sleep(100)
            assert (await consumer.ask()).error == NONE
            assert (await Consumer(log).ask([(0, 0), (1, 0)])).session_id == 0

    logged(body, partitions=2)


def test_a_session_that_grows_too_large_ends() -> None:
    async def body(log: FakeLog) -> None:
        sessions = log.broker.fetch_sessions = FetchSessions(max_bytes=8 * 1024)
        consumer = Consumer(log)
        await consumer.ask([(0, 0)])
        assert consumer.session_id
        await consumer.ask()
        assert watchers(log) == 1
        answer = await consumer.ask([(index, 0) for index in range(1, 30)])
        assert (answer.error, answer.session_id, answer.told) == (NOT_FOUND, 0, [])
        assert (len(sessions.cache), sessions.cache.bytes, watchers(log)) == (0, 0, 0)
        # And now it does without: too much is asked for.
        answer = await consumer.ask([(index, 0) for index in range(30)])
        assert (answer.session_id, len(answer.told)) == (0, 30)

    logged(body, partitions=30)


def test_a_follower_s_session_is_worth_more() -> None:
    async def body(log: FakeLog) -> None:
        cache = log.broker.fetch_sessions.cache = FetchSessionCache(slots=1)
        await Consumer(log).begin()
        assert (await Consumer(log).ask([(0, 0)])).session_id == 0
        assert (await Consumer(log).ask([(0, 0)], replica_id=2)).session_id
        assert cache.evictions == 1

    logged(body)


# waiting --------------------------------------------------------------------------------------------------


async def parked(consumer: Consumer, nursery: trio.Nursery, **options: Any) -> list[Answer]:
    """A Fetch that waits; its answer comes into the list."""
    answers: list[Answer] = []
    request = consumer.request(**{"max_wait_ms": NEVER_MS} | options)

    async def wait() -> None:
        answers.append(await consumer.send(request))

    nursery.start_soon(wait)
    await wait_all_tasks_blocked()
    assert not answers
    return answers


def test_it_waits_until_one_of_its_partitions_has_enough() -> None:
    async def body(log: FakeLog) -> None:
        consumer = Consumer(log)
        await consumer.begin()
        for first in (True, False):
            async with trio.open_nursery() as nursery:
                answers = await parked(consumer, nursery, min_bytes=2 * SIZE)
                assert len(log.broker.parked) == 1
                await put(log, 2)
                await wait_all_tasks_blocked()
                assert not answers
                await put(log, 0)
                await wait_all_tasks_blocked()
            high = 1 if first else 2
            assert answers[0].told == [(0, NONE, high, 1), (2, NONE, high, 1)]
            assert not log.broker.parked
            assert (await consumer.ask([(0, high), (2, high)])).told == []

    logged(body, partitions=3)


def test_it_waits_for_more_of_a_partition_that_gave_too_little() -> None:
    async def body(log: FakeLog) -> None:
        consumer = Consumer(log)
        await consumer.begin()
        await put(log, 0)
        async with trio.open_nursery() as nursery:
            answers = await parked(consumer, nursery, min_bytes=3 * SIZE)
            for _ in range(2):
                assert not answers
                await put(log, 0)
                await wait_all_tasks_blocked()
        assert answers[0].told == [(0, NONE, 3, 3)]

    logged(body)


def test_nothing_new_is_told_when_the_wait_is_over() -> None:
    async def body(log: FakeLog) -> None:
        consumer = Consumer(log)
        await consumer.begin()
        began = trio.current_time()
        answer = await consumer.ask(max_wait_ms=500)
        assert (answer.error, answer.session_id, answer.told) == (NONE, consumer.session_id, [])
        assert trio.current_time() == began + 0.5

    logged(body, partitions=2)


def test_a_wait_that_is_hurried_ends() -> None:
    async def body(log: FakeLog) -> None:
        consumer = Consumer(log)
        await consumer.begin()
        async with trio.open_nursery() as nursery:
            answers = await parked(consumer, nursery)
            (waiter,) = log.broker.parked
            waiter.hurry()
        assert answers[0].told == []
        assert (await consumer.ask()).error == NONE

    logged(body)


def test_a_client_that_goes_away_while_it_waits_misses_nothing() -> None:
    async def body(log: FakeLog) -> None:
        consumer = Consumer(log)
        await consumer.begin()
        await consumer.ask()
        async with trio.open_nursery() as nursery:
            await parked(consumer, nursery)
            nursery.cancel_scope.cancel()
        consumer.epoch += 1
        await put(log, 1)
        assert (await consumer.ask()).told == [(1, NONE, 1, 1)]
        assert not log.broker.parked

    logged(body, partitions=2)


def test_what_comes_between_the_reading_and_the_answer_is_told_next() -> None:
    async def body(log: FakeLog) -> None:
        consumer = Consumer(log)
        await consumer.begin()
        await put(log, 0)
        first = log.topic.partitions[0]
        real = first.read_cold

        async def read_late(*arguments: Any) -> Any:
            await put(log, 1)
            return await real(*arguments)

        first.read_cold = read_late  # type: ignore[method-assign, assignment]
        lookups(log)
        assert (await consumer.ask()).batches == {0: 1}
        assert (await consumer.ask([(0, 1)])).batches == {1: 1}

    logged(body, partitions=2, tail_cache_bytes=1)


@pytest.mark.parametrize("idle", [False, True])
def test_the_same_session_over_two_connections_answers_the_later_one(idle: bool) -> None:
    async def body(log: FakeLog) -> None:
        consumer = Consumer(log)
        await consumer.begin()
        if idle:
            await consumer.ask()
        twin = Consumer(log)
        twin.session_id, twin.epoch = consumer.session_id, consumer.epoch + 1
        session_id = consumer.session_id
        async with trio.open_nursery() as nursery:
            early = await parked(consumer, nursery)
            late = await parked(twin, nursery)
            assert [(one.error, one.session_id) for one in early] == [(WRONG_EPOCH, session_id)]
            await put(log, 0)
        assert late[0].told == [(0, NONE, 1, 1)]

    logged(body)


def test_a_session_that_ends_while_it_waits_leaves_nothing_behind() -> None:
    async def body(log: FakeLog) -> None:
        consumer = Consumer(log)
        await consumer.begin()
        session_id = consumer.session_id
        async with trio.open_nursery() as nursery:
            answers = await parked(consumer, nursery)
            await Consumer(log).ask([(0, 0)], session_id=session_id, epoch=-1)
        assert (answers[0].error, answers[0].session_id, answers[0].told) == (NONE, session_id, [])
        assert watchers(log) == 0
        assert (await consumer.ask()).error == NOT_FOUND

    logged(body, partitions=2)


def test_what_is_forgotten_while_another_fetch_reads_it_is_not_watched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(incremental, "BREATH", 1)

    async def body(log: FakeLog) -> None:
        consumer = Consumer(log)
        await consumer.begin()
        twin = Consumer(log)
        twin.session_id, twin.epoch = consumer.session_id, 2
        early: list[Answer] = []

        async def read() -> None:
            early.append(await consumer.ask())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            while not watchers(log):  # it has read the first one
                await trio.lowlevel.checkpoint()
            assert (await twin.ask(forget=[1, 2])).error == NONE
        assert early[0].error == WRONG_EPOCH
        assert [partition.listeners.watching for partition in log.topic.partitions] == [1, 0, 0]

    logged(body, partitions=3)


# topics that come and go ----------------------------------------------------------------------------------


class Cluster:
    """Topics by name and id that a test changes, in the place of `FakeLog`'s one."""

    def __init__(self, log: FakeLog) -> None:
        self.log = log
        self.topics = [log.topic]
        log.broker.topics.get = lambda name: next((t for t in self.topics if t.name == name), None)
        log.broker.topics.by_id = lambda wanted: next((t for t in self.topics if t.id == wanted), None)

    def delete(self) -> None:
        self.topics.clear()
        for partition in self.log.topic.partitions:
            partition.delete()

    def create(self, partitions: int = 2) -> Topic:
        """As the log's topic, with another id."""
        old = self.log.topic
        made = Topic(old.name, bytes(reversed(old.id)), old.configs, old.settings)
        self.add(made, partitions)
        self.topics.append(made)
        self.log.topic = made
        return made

    def add(self, topic: Topic, partitions: int) -> None:
        for index in range(len(topic.partitions), partitions):
            partition = Partition(self.log.context, topic, index)
            partition.begin_serving(ProducerState())
            topic.partitions.append(partition)


@pytest.mark.parametrize(
    ("version", "deleted", "made_again"),
    [(BY_NAME, UNKNOWN, NONE), (BY_ID, UNKNOWN, INCONSISTENT)],
)
def test_a_topic_that_is_deleted_and_made_again(version: int, deleted: int, made_again: int) -> None:
    """By name the session goes on with the new log; by id it is told, and the client names the new id."""

    async def body(log: FakeLog) -> None:
        cluster = Cluster(log)
        consumer = Consumer(log, version)
        old_key = consumer.key
        await put(log, 0, 1)
        await consumer.begin(offset=1)
        await consumer.ask()
        async with trio.open_nursery() as nursery:
            answers = await parked(consumer, nursery)
            cluster.delete()
        assert answers[0].told == [(0, deleted, -1, 0), (1, deleted, -1, 0)]
        assert (await consumer.ask()).told == answers[0].told
        cluster.create()
        await put(log, 1)
        answer = await consumer.ask()
        if made_again:
            assert answer.told == [(0, made_again, -1, 0), (1, made_again, -1, 0)]
            answer = await consumer.ask([(0, 0), (1, 0)], forget={old_key: [0, 1]})
            assert answer.told == [(0, NONE, 0, 0), (1, NONE, 1, 1)]
            assert set(answer.topics) == {consumer.key}
        else:
            assert answer.told == [(0, int(ErrorCode.OFFSET_OUT_OF_RANGE), -1, 0), (1, NONE, 1, 0)]
            assert (await consumer.ask([(0, 0)])).told == [(0, NONE, 0, 0)]

    logged(body, partitions=2)


@pytest.mark.parametrize("made_again", [False, True])
def test_what_is_looked_at_before_its_call_comes_is_called_no_more(*, made_again: bool) -> None:
    """Many are to be told of a deleted topic, so these are told in a later turn."""

    async def body(log: FakeLog) -> None:
        cluster = Cluster(log)
        consumer = Consumer(log)
        await consumer.begin()
        await consumer.ask()
        while log.context.wake_ups.may_call(1):
            pass
        cluster.delete()
        if made_again:
            cluster.create()
        expected = NONE if made_again else UNKNOWN
        answer = await consumer.ask([(0, 0), (1, 0)])
        assert [error for _, error, _, _ in answer.told] == [expected] * len(answer.told)
        assert (await consumer.ask(forget=[0])).error == NONE
        await wait_all_tasks_blocked()
        if made_again:
            await put(log, 0, 1)
            assert (await consumer.ask()).told == [(1, NONE, 1, 1)]
        await consumer.ask(epoch=-1)

    logged(body, partitions=2)


def test_a_topic_that_is_deleted_just_when_a_cold_partition_has_woken_a_fetch() -> None:
    async def body(log: FakeLog) -> None:
        cluster = Cluster(log)
        consumer = Consumer(log)
        await consumer.begin()
        async with trio.open_nursery() as nursery:
            answers = await parked(consumer, nursery)
            await put(log, 0)  # larger than the tail cache
            cluster.delete()
        assert answers[0].told == [(0, UNKNOWN, -1, 0), (1, UNKNOWN, -1, 0)]

    logged(body, partitions=2, **COLD)


def test_an_id_that_was_never_known() -> None:
    async def body(log: FakeLog) -> None:
        consumer = Consumer(log, BY_ID)
        stranger = bytes(16)
        await consumer.begin()
        answer = await consumer.ask({stranger: [(0, 0)]})
        assert (answer.told, answer.topics) == ([(0, UNKNOWN_ID, -1, 0)], [stranger])
        assert (await consumer.ask(forget={stranger: [0]})).told == []

    logged(body)


def test_partitions_and_topics_that_are_not_there_yet() -> None:
    async def body(log: FakeLog) -> None:
        cluster = Cluster(log)
        consumer = Consumer(log)
        await consumer.begin()
        assert (await consumer.ask([(1, 0), (2, 0)])).told == [(1, UNKNOWN, -1, 0), (2, UNKNOWN, -1, 0)]
        cluster.add(log.topic, 2)
        await put(log, 1)
        assert (await consumer.ask()).told == [(1, NONE, 1, 1), (2, UNKNOWN, -1, 0)]
        assert (await consumer.ask([(-1, 0)])).told[-1] == (-1, UNKNOWN, -1, 0)

    logged(body)


@pytest.mark.parametrize(("asks", "seconds"), [([(1, 0)], 0), ([(0, 0), (1, 0)], 0.5)])
@pytest.mark.parametrize("epoch", [0, -1])
def test_an_unknown_partition_beside_a_known_one_hurries_nobody(
    epoch: int, asks: list[tuple[int, int]], seconds: float
) -> None:
    """Its client asks again until it has heard of the deletion, and must not do so in a busy loop."""

    async def body(log: FakeLog) -> None:
        consumer = Consumer(log)
        for _ in range(2):
            began = trio.current_time()
            named = () if consumer.epoch else asks
            answer = await consumer.ask(named, max_wait_ms=500, epoch=consumer.epoch or epoch)
            assert answer.told[-1] == (1, UNKNOWN, -1, 0)
            assert trio.current_time() == began + seconds

    logged(body)
