"""DeleteTopics 1-6: by name, by id from 6 on."""

from __future__ import annotations

import time
from typing import Any

from kafka.protocol.admin import DeleteTopicsRequest
from kafka.protocol.metadata import MetadataRequest

from tests.differential.batches import batch_of
from tests.differential.case import case
from tests.differential.requests import fetch, fetch_partition, produce
from tests.differential.side import SETTLE_SECONDS, Side

BY_ID = 6


def state(name: str | None = None, topic_id: Any = None) -> Any:
    return DeleteTopicsRequest.DeleteTopicState(name=name, topic_id=topic_id)


def ask(side: Side, version: int, names: list[str], label: str = "") -> None:
    which: dict[str, Any] = (
        {"topics": [state(n) for n in names]} if version >= BY_ID else {"topic_names": names}
    )
    side.ask(DeleteTopicsRequest(version=version, timeout_ms=10_000, **which), label)


def gone(side: Side, name: str) -> None:
    """Waits until Metadata has forgotten it."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while True:
        wanted = [MetadataRequest.MetadataRequestTopic(name=name, topic_id=None)]
        question = MetadataRequest(version=12, topics=wanted, allow_auto_topic_creation=False)
        if side.connection.ask(question).topics[0].error_code == 3:
            return
        if time.monotonic() > deadline:
            raise TimeoutError(f"{name} is still there")
        time.sleep(0.01)


@case(DeleteTopicsRequest)
def good(side: Side, version: int) -> None:
    a, b = side.own_topic("a"), side.own_topic("b", partitions=2)
    ask(side, version, [b, a], "both")
    gone(side, a)
    gone(side, b)
    ask(side, version, [a], "again")


@case(DeleteTopicsRequest)
def unknown(side: Side, version: int) -> None:
    kept = side.own_topic("kept")
    ask(side, version, [side.name("nowhere")], "alone")
    ask(side, version, [side.name("nowhere"), kept], "beside a known one")
    ask(side, version, [""], "no name")
    ask(side, version, ["a/b"], "bad name")


@case(DeleteTopicsRequest)
def twice_in_one_request(side: Side, version: int) -> None:
    name = side.own_topic("t")
    ask(side, version, [name, name])


@case(DeleteTopicsRequest)
def nothing(side: Side, version: int) -> None:
    ask(side, version, [])


@case(DeleteTopicsRequest)
def then_used(side: Side, version: int) -> None:
    """A deleted topic is unknown, by name and by its old id."""
    name = side.own_topic("t")
    side.put(name, batch_of(b"x"))
    ask(side, version, [name])
    gone(side, name)
    for asked in (12, 13):
        side.ask(produce(side, asked, {name: {0: batch_of(b"y")}}), f"produce {asked}")
        side.ask(fetch(side, asked, {name: [fetch_partition(0, 0)]}), f"fetch {asked}")


@case(DeleteTopicsRequest)
def made_again(side: Side, version: int) -> None:
    """The same name, another topic: empty, from offset 0, with another id."""
    name = side.own_topic("t")
    side.put(name, batch_of(b"x"), batch_of(b"y"))
    ask(side, version, [name])
    gone(side, name)
    del side.server.topic_ids[name]
    side.own_topic("t")
    side.ask(fetch(side, 12, {name: [fetch_partition(0, 0)]}), "empty")
    side.ask(produce(side, 12, {name: {0: batch_of(b"z")}}), "first again")
    side.ask(fetch(side, 12, {name: [fetch_partition(0, 0)]}), "only the new")


@case(DeleteTopicsRequest, [BY_ID])
def by_id(side: Side, version: int) -> None:
    def by(label: str, *states: Any) -> None:
        side.ask(DeleteTopicsRequest(version=version, timeout_ms=10_000, topics=list(states)), label)

    name, other = side.own_topic("t"), side.own_topic("u")
    topic_id = side.id_of(name)
    by("unknown", state(topic_id=side.id_of("nobody")))
    by("neither", state())
    by("both", state(name, topic_id))
    by("name and its id apart", state(other), state(topic_id=side.id_of(other)))
    by("good", state(topic_id=topic_id))
    gone(side, name)
    by("again", state(topic_id=topic_id))
