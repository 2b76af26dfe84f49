"""Fetch 7-18 with sessions (KIP-227): what an incremental answer tells, in turns, as topics come and go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kafka.protocol.admin import DeleteTopicsRequest
from kafka.protocol.consumer import FetchRequest

from tests.differential.batches import batch_of
from tests.differential.case import case
from tests.differential.cases.delete_records import request as delete_records
from tests.differential.cases.delete_topics import gone
from tests.differential.requests import FETCH_BY_ID, fetch, fetch_partition
from tests.differential.side import Side

WITH_SESSIONS = range(7, 19)
SOME = [7, 12, 13, 18]
LAST_EPOCH = 2**31 - 1
NO_MORE = -1


class Session:
    """A client's view of one: its id is the server's own, so the two sides' requests differ in it."""

    def __init__(self, side: Side, version: int) -> None:
        self.side = side
        self.version = version
        self.id = 0
        self.epoch = 0

    def ask(
        self,
        label: str,
        wanted: Mapping[str, Sequence[Any]] | None = None,
        *,
        forget: Mapping[str, Sequence[int]] | None = None,
        **fields: Any,
    ) -> Any:
        """One Fetch; the next goes on from it unless it failed."""
        side = self.side
        version = fields.pop("version", self.version)
        forgotten = [
            FetchRequest.ForgottenTopic(
                partitions=list(partitions),
                **({"topic_id": side.id_of(name)} if version >= FETCH_BY_ID else {"topic": name}),
            )
            for name, partitions in (forget or {}).items()
        ]
        values: dict[str, Any] = {
            "session_id": self.id,
            "session_epoch": self.epoch,
            "forgotten_topics_data": forgotten,
        } | fields
        answer = side.ask_own_id(fetch(side, version, wanted or {}, **values), label)
        if not isinstance(answer, str) and not answer.error_code:
            self.id = answer.session_id
            self.epoch = values["session_epoch"] + 1 if self.id else 0
        return answer


def numbered(side: Side, count: int) -> list[bytes]:
    return [batch_of(b"%03d" % number * 20) for number in range(count)]


@case(FetchRequest, WITH_SESSIONS)
def reading(side: Side, version: int) -> None:
    """A consumer that reads along: it names what it moved, and hears of what is new."""
    topic = side.own_topic("t", partitions=3)
    side.put(topic, *numbered(side, 2), partition=1)
    session = Session(side, version)
    session.ask("all", {topic: [fetch_partition(n, 0) for n in range(3)]})
    session.ask("not moved")
    session.ask("moved", {topic: [fetch_partition(1, 2)]})
    session.ask("nothing")
    side.put(topic, *numbered(side, 1), partition=2)
    session.ask("one has something")
    session.ask("moved again", {topic: [fetch_partition(2, 1)]})
    session.ask("back", {topic: [fetch_partition(1, 1)]})
    session.ask("past the end", {topic: [fetch_partition(0, 5)]})
    session.ask("still past the end")
    session.ask("at the end", {topic: [fetch_partition(0, 0)]})
    session.ask("nothing again", max_wait_ms=20)
    session.ask("closed", {topic: [fetch_partition(0, 0)]}, session_epoch=NO_MORE)
    session.ask("after it", session_id=session.id, session_epoch=3)


@case(FetchRequest, WITH_SESSIONS)
def members(side: Side, version: int) -> None:
    """Partitions that come and go: named, forgotten, both at once, unknown ones."""
    topic, other = side.own_topic("t", partitions=3), side.own_topic("other")
    for partition in range(3):
        side.put(topic, *numbered(side, 1), partition=partition)
    side.put(other, *numbered(side, 3))
    session = Session(side, version)
    session.ask("one", {topic: [fetch_partition(0, 0)]})
    session.ask("two more", {topic: [fetch_partition(1, 0)], other: [fetch_partition(0, 1)]})
    session.ask("forget", forget={topic: [0], other: [0, 7]})
    session.ask("forget what is not there", forget={topic: [0], side.name("nowhere"): [0]})
    session.ask("named and forgotten", {topic: [fetch_partition(2, 0)]}, forget={topic: [2]})
    session.ask("unknown partition", {topic: [fetch_partition(9, 0)]})
    session.ask("unknown topic", {side.name("nowhere"): [fetch_partition(0, 0)]})
    session.ask("told again")
    session.ask("without them", forget={topic: [9], side.name("nowhere"): [0]})
    session.ask("the last one", {topic: [fetch_partition(2, 0)]}, forget={topic: [1, 2]})
    session.ask("gone", session_id=session.id or 1, session_epoch=9)


@case(FetchRequest, WITH_SESSIONS)
def turns(side: Side, version: int) -> None:
    """Answers with room for one batch: each partition has its turn."""
    topic = side.topic("t", partitions=4)
    for partition in range(1, 4):
        side.once(topic, *numbered(side, 3), partition=partition)
    offsets = [0] * 4
    session = Session(side, version)
    named = [fetch_partition(n, 0) for n in range(4)]
    for number in range(11):
        answer = session.ask(f"number {number}", {topic: named} if named else {}, max_bytes=1)
        named = []
        for one in answer.responses[0].partitions if answer.responses else []:
            if one.records:
                offsets[one.partition_index] += 1
                named.append(fetch_partition(one.partition_index, offsets[one.partition_index]))
    for limit in (150, 250):
        session.ask(
            f"from the start {limit}", {topic: [fetch_partition(n, 0) for n in (3, 1, 2)]}, max_bytes=limit
        )
        session.ask(f"on from there {limit}", max_bytes=limit)


@case(FetchRequest, WITH_SESSIONS)
def wrong(side: Side, version: int) -> None:
    """Epochs and ids that do not fit, and the other way to name topics."""
    topic = side.topic("t")
    side.once(topic, *numbered(side, 1))
    session = Session(side, version)
    wanted = {topic: [fetch_partition(0, 0)]}
    session.ask("begins", wanted)
    for epoch in (2, -2, LAST_EPOCH):
        session.ask(f"epoch {epoch}", session_epoch=epoch)
    session.ask("another id", session_id=session.id ^ 1)
    session.ask("no id", session_id=0, session_epoch=1)
    other = 12 if version >= FETCH_BY_ID else 13
    session.ask("the other way", version=other)
    session.ask("goes on all the same")
    session.ask("the same epoch twice", session_epoch=1)
    session.ask("begins again", wanted, session_epoch=0)
    session.ask("nothing at all, no session", session_id=0, session_epoch=0)
    session.ask("goes on with nothing")


@case(FetchRequest, SOME)
def trimmed(side: Side, version: int) -> None:
    """The log's start moves under a session: it is told, and an offset before it is out of range."""
    topic = side.own_topic("t", partitions=3)
    for partition in range(2):
        side.put(topic, *numbered(side, 3), partition=partition)
    session = Session(side, version)
    session.ask("all", {topic: [fetch_partition(0, 3), fetch_partition(1, 0), fetch_partition(2, 0)]})
    session.ask("moved", {topic: [fetch_partition(1, 3)]})
    session.ask("idle")
    side.connection.ask(delete_records(1, (topic, {0: 2, 1: 3})))
    session.ask("trimmed")
    session.ask("idle again")
    session.ask("before the start", {topic: [fetch_partition(0, 1)]})
    session.ask("still")
    session.ask("at the start", {topic: [fetch_partition(0, 2)]})


@case(FetchRequest, SOME)
def topic_made_again(side: Side, version: int) -> None:
    """Deleted, and made again with another id: sessions by name go on, those by id are told so."""
    topic = side.own_topic("t", partitions=2)
    old = side.id_of(topic)
    side.put(topic, *numbered(side, 2))
    session = Session(side, version)
    session.ask("all", {topic: [fetch_partition(0, 2), fetch_partition(1, 0), fetch_partition(5, 0)]})
    session.ask("idle")
    side.connection.ask(DeleteTopicsRequest(version=1, topic_names=[topic], timeout_ms=10_000))
    gone(side, topic)
    session.ask("deleted")
    side.server.topic_ids["the old one"] = side.server.topic_ids.pop(topic)
    side.own_topic("t", partitions=2)
    side.put(topic, *numbered(side, 1), partition=1)
    session.ask("made again")
    session.ask("told again")
    assert side.id_of("the old one") == old
    session.ask("named", {topic: [fetch_partition(0, 0), fetch_partition(1, 0)]})
    if version >= FETCH_BY_ID:
        session.ask("forgotten", forget={"the old one": [0, 1, 5]})
    session.ask("moved", {topic: [fetch_partition(1, 1)]})
    session.ask("goes on")
    del side.server.topic_ids["the old one"]
