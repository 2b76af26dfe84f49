"""Metadata and ListOffsets from what is remembered: as the handler says it, also when something changed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from tests.unit.gateway.api.asking import ADDRESS, REGISTRY, FakeBroker, ask, encode_request, request_class
from wireproto.kafka.errors import ErrorCode
from wireproto.kafka.headers import parse_request_header

Metadata = request_class(3)
ListOffsets = request_class(2)
_Asked = ListOffsets.ListOffsetsTopic


def at_once(broker: FakeBroker, request: Any) -> bytes | None:
    """What the short way says by itself."""
    frame = encode_request(request)
    header = parse_request_header(frame)
    api = REGISTRY.lookup(header.api_key)
    assert api is not None
    assert api.at_once is not None
    found = api.at_once(header, frame, ADDRESS, broker.access, broker)
    assert found is None or isinstance(found, bytes)
    return found


def metadata(names: list[str] | None, *, version: int = 12, create: bool = False) -> Any:
    wanted = None if names is None else [Metadata.MetadataRequestTopic(name=name) for name in names]
    return Metadata(version=version, topics=wanted, allow_auto_topic_creation=create)


def ends(wanted: dict[str, list[int]], timestamp: int = -1, *, version: int = 8, epoch: int = -1) -> Any:
    topics = [
        _Asked(
            name=name,
            partitions=[
                _Asked.ListOffsetsPartition(
                    partition_index=index, current_leader_epoch=epoch, timestamp=timestamp
                )
                for index in indexes
            ],
        )
        for name, indexes in wanted.items()
    ]
    return ListOffsets(version=version, replica_id=-1, isolation_level=0, topics=topics, timeout_ms=1)


def broker() -> FakeBroker:
    made = FakeBroker()
    made.add("orders", 3)
    made.add("payments", 1)
    return made


def _advance(made: FakeBroker) -> None:
    made.topics.get("orders").partitions[1].timestamps.append(5)


def _new_epoch(made: FakeBroker) -> None:
    made.topics.get("orders").partitions[1].leader_epoch = 7


def _unavailable(made: FakeBroker) -> None:
    made.topics.get("orders").partitions[1].available = False


def _more_partitions(made: FakeBroker) -> None:
    topic = made.topics.get("orders")
    topic.partitions = [*topic.partitions, type(topic.partitions[0])(3)]


def _other_topic(made: FakeBroker) -> None:
    del made.topics.topics["orders"]
    made.add("orders", 2)


def _no_topic(made: FakeBroker) -> None:
    del made.topics.topics["orders"]


CHANGES: list[Callable[[FakeBroker], None]] = [
    _advance,
    _new_epoch,
    _unavailable,
    _more_partitions,
    _other_topic,
    _no_topic,
]
QUESTIONS: list[Callable[[], Any]] = [
    partial(metadata, ["orders", "payments"]),
    partial(metadata, None),
    partial(metadata, None, version=0),
    partial(ends, {"orders": [0, 1, 2], "payments": [0]}),
    partial(ends, {"orders": [0, 1]}, -2),
    partial(ends, {"orders": [1]}, version=1),
    partial(ends, {"orders": [1]}, epoch=0),
    partial(ends, {}),
]


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_that_was_asked_is_answered_at_once(question: Callable[[], Any]) -> None:
    made = broker()
    ask(made, question())
    assert at_once(made, question()) is not None


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("change", CHANGES)
def test_whatever_changes_is_in_the_next_answer(
    question: Callable[[], Any], change: Callable[[FakeBroker], None]
) -> None:
    made = broker()
    ask(made, question())
    at_once(made, question())
    change(made)
    before = at_once(made, question())
    ask(made, question())  # which compares its answer with the short way's
    assert before in {None, at_once(made, question())}


def test_topics_that_were_made_again_are_not_answered_as_those_before() -> None:
    """What is looked at stands in one row: in another order of numbers of partitions the same row says other
    things.
    """

    def made_of(*topics: list[tuple[int, int]]) -> FakeBroker:
        """Topics of partitions with these epochs and ends."""
        made = FakeBroker()
        for name, partitions in zip(("orders", "payments"), topics, strict=True):
            topic = made.add(name, len(partitions))
            for partition, (epoch, end) in zip(topic.partitions, partitions, strict=True):
                partition.leader_epoch, partition.timestamps = epoch, [0] * end
        return made

    question = ends({"orders": [0, 1], "payments": [0, 1]})
    before = made_of([(3, 1), (3, 1), (1, 0), (1, 0)], [(5, 7), (5, 7)])
    after = made_of([(1, 3), (1, 3)], [(0, 5), (0, 5), (1, 7), (1, 7)])
    assert at_once(before, question) is not None
    orders, payments = ask(after, question)["topics"]
    assert [(one["offset"], one["leader_epoch"]) for one in orders["partitions"]] == [(3, 1)] * 2
    assert [(one["offset"], one["leader_epoch"]) for one in payments["partitions"]] == [(5, 0)] * 2


def test_a_missing_topic_is_left_to_the_handler_where_it_may_be_created() -> None:
    made = broker()
    made.settings.auto_create_topics = False
    (topic,) = ask(made, metadata(["new"], create=True))["topics"]
    assert topic["error_code"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert at_once(made, metadata(["new"], create=True)) is not None
    made.settings.auto_create_topics = True
    assert at_once(made, metadata(["new"], create=True)) is None
    ask(made, metadata(["new"], create=True))
    made.create_automatically()
    (topic,) = ask(made, metadata(["new"], create=True))["topics"]
    assert topic["error_code"] == ErrorCode.NONE
    assert at_once(made, metadata(["new"], create=True)) is not None


@pytest.mark.parametrize(
    "question",
    [
        ends({"orders": [0, 0]}),
        ends({"orders": [-1]}),
        ends({"orders": [3]}),
        ends({"nowhere": [0]}),
        ends({"orders": []}),
        ends({"orders": [0]}, 1000),
        ends({"orders": [0]}, -3),
        ends({"orders": [0]}, epoch=9),
        ends({"orders": [1, 0]}, -4),
    ],
)
def test_what_takes_more_than_a_look_is_left_to_the_handler(question: Any) -> None:
    assert at_once(broker(), question) is None


def test_an_isolation_level_that_is_none_is_left_to_the_handler() -> None:
    question = ends({"orders": [0]})
    question.isolation_level = 2
    assert at_once(broker(), question) is None
