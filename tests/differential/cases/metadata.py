"""Metadata 0-13: by name, by id, all of them, and auto-creation."""

from __future__ import annotations

from typing import Any

from kafka.protocol.metadata import MetadataRequest

from tests.differential.case import case
from tests.differential.side import Side

ALL_VERSIONS = range(14)
BY_ID = range(12, 14)  # 10 and 11 have the field, but only null names with an id from 12 on
LONGEST_NAME = 249


def topics(*names: str | None, ids: tuple[Any, ...] = ()) -> list[Any]:
    one = MetadataRequest.MetadataRequestTopic
    return [one(name=name, topic_id=None) for name in names] + [one(name=None, topic_id=i) for i in ids]


def ask(side: Side, version: int, wanted: list[Any] | None, label: str = "", **fields: Any) -> Any:
    fields.setdefault("allow_auto_topic_creation", False)
    return side.ask(MetadataRequest(version=version, topics=wanted, **fields), label)


@case(MetadataRequest)
def one_named(side: Side, version: int) -> None:
    ask(side, version, topics(side.topic("three", partitions=3)))


@case(MetadataRequest)
def several_named(side: Side, version: int) -> None:
    names = [side.topic("b"), side.topic("a", partitions=2), side.topic("c")]
    ask(side, version, topics(*names))
    ask(side, version, topics(names[0], names[0]), "twice the same")


@case(MetadataRequest, range(1, 14))
def no_topics(side: Side, version: int) -> None:
    ask(side, version, [])


@case(MetadataRequest)
def all_topics(side: Side, version: int) -> None:
    """Other cases' topics are there too: what is compared is that ours are among them."""
    mine = {side.topic("x"), side.topic("y", partitions=2)}
    answer = ask(side, version, [] if version == 0 else None, "all")
    answer.topics = [topic for topic in answer.topics if topic.name in mine]


@case(MetadataRequest, range(4, 14))
def unknown(side: Side, version: int) -> None:
    ask(side, version, topics(side.name("nowhere")), "alone")
    ask(side, version, topics(side.topic("here"), side.name("nowhere")), "beside a known one")


@case(MetadataRequest)
def auto_created(side: Side, version: int) -> None:
    """Before version 4 there was no way to say no."""
    name = side.own_name("new")
    ask(side, version, topics(name), "first", allow_auto_topic_creation=True)
    side.settle(name)
    ask(side, version, topics(name), "then")


@case(MetadataRequest)
def bad_names(side: Side, version: int) -> None:
    for create in [False, True]:
        for label, name in {
            "empty": "",
            "dot": ".",
            "two dots": "..",
            "slash": "a/b",
            "space": "a b",
            "NUL": "a\0b",
            "emoji": "\N{SNOWMAN}",
            "too long": "x" * (LONGEST_NAME + 1),
        }.items():
            ask(side, version, topics(name), f"{label} {create}", allow_auto_topic_creation=create)


@case(MetadataRequest, range(4, 14))
def clashing_name(side: Side, version: int) -> None:
    """Kafka refuses to create a topic whose name differs from another's only in '.' and '_'."""
    made = side._make(side.name("clash").replace("-", "."), 1, {})
    ask(side, version, topics(made.replace(".", "_")), allow_auto_topic_creation=True)


@case(MetadataRequest, range(10, 14))
def by_id(side: Side, version: int) -> None:
    known = side.id_of(side.topic("known", partitions=2))
    unknown = side.id_of("nobody")
    ask(side, version, topics(ids=(known,)), "known")
    ask(side, version, topics(ids=(unknown,)), "unknown")
    ask(side, version, topics(ids=(known, unknown)), "both")
    ask(side, version, topics(side.topic("named"), ids=(known,)), "name beside id")
    ask(side, version, topics(None), "neither")


@case(MetadataRequest, range(10, 14))
def name_and_id(side: Side, version: int) -> None:
    name, other = side.topic("known"), side.topic("other")
    both = MetadataRequest.MetadataRequestTopic(name=name, topic_id=side.id_of(other))
    ask(side, version, [both])


@case(MetadataRequest, range(8, 14))
def authorized_operations(side: Side, version: int) -> None:
    fields: dict[str, Any] = {"include_topic_authorized_operations": True}
    if version <= 10:
        fields["include_cluster_authorized_operations"] = True
    ask(side, version, topics(side.topic("t")), **fields)


@case(MetadataRequest, range(9))
def null_name(side: Side, version: int) -> None:
    """A null string where none may be."""
    rest = b"" if version < 4 else b"\0"
    rest += b"" if version < 8 else b"\0\0"
    side.ask_body(3, version, b"\0\0\0\1\xff\xff" + rest)
