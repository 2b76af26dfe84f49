"""Which subjects topics may publish under and take up: no topic's name, and none that comes round."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import pytest

from gateway.cluster.subject_names import SubjectNames, published_subject
from gateway.cluster.topics import Topics
from gateway.configs.effective import EffectiveTopicConfigs, effective_topic_configs
from gateway.log.topic import Topic
from wireproto.kafka.errors import ErrorCode, KafkaError


def settings(publish: str | None = None, native: str = "") -> EffectiveTopicConfigs:
    """`publish`: the subject, "" for the one by default; None: it is not published."""
    configs = {} if publish is None else {"dafka.publish": "values", "dafka.publish.subject": publish}
    return effective_topic_configs({**configs, **({"dafka.native.subject": native} if native else {})})


def of(**topics: EffectiveTopicConfigs) -> tuple[Topics, SubjectNames]:
    made = {name: cast("Topic", SimpleNamespace(name=name, settings=one)) for name, one in topics.items()}
    names = SubjectNames()
    names.look(made.values())
    return cast("Topics", made), names


@pytest.mark.parametrize(("publish", "expected"), [(None, ""), ("", "orders.values"), ("prices", "prices")])
def test_the_subject_of_a_topic(publish: str | None, expected: str) -> None:
    assert published_subject("orders", settings(publish)) == expected


class Case(NamedTuple):
    wanted: EffectiveTopicConfigs
    why: str
    others: dict[str, EffectiveTopicConfigs] = {}  # noqa: RUF012 - nobody changes it
    name: str = "t"


CASES = {
    "not published": Case(settings(), ""),
    "published": Case(settings(""), ""),
    "two of the same subject": Case(settings("s"), "", {"a": settings("s")}),
    "takes up another subject": Case(settings("", native="n"), "", {"a": settings("s")}),
    "taken up by two": Case(settings(native="n"), "", {"a": settings(native="n")}),
    "its own name": Case(settings("t"), "'t' is the name of a topic"),
    "another topic's name": Case(settings("a"), "'a' is the name of a topic", {"a": settings()}),
    "by default another topic's name": Case(
        settings(""), "'t.values' is the name of a topic", {"t.values": settings()}
    ),
    "a subject of 256 bytes": Case(
        settings(""), "has more than 255 bytes. Give the topic a shorter one", name="t" * 249
    ),
    "one of 255 bytes": Case(settings(""), "", name="t" * 248),
    "another one of a long name": Case(settings("s"), "", name="t" * 249),
    "its own subject": Case(settings("s", native="s"), "topic 't' takes up the subject 's'"),
    "one that another takes up": Case(
        settings("s"), "topic 'a' takes up the subject 's'", {"a": settings(native="s")}
    ),
    "takes up what it and another publish": Case(
        settings(native="s"),
        "topic 'a' publishes its values under 's'",
        {"a": settings("s"), "t": settings("s")},
    ),
    "takes up what another publishes": Case(
        settings(native="s"), "topic 'a' publishes its values under 's'", {"a": settings("s")}
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_a_topic_may_have(name: str) -> None:
    case = CASES[name]
    topics, names = of(**case.others)
    if not case.why:
        names.check(topics, case.name, case.wanted)
        return
    with pytest.raises(KafkaError, match=case.why) as refused:
        names.check(topics, case.name, case.wanted)
    assert refused.value.code is ErrorCode.INVALID_CONFIG


def test_what_is_there_already_is_not_in_its_own_way() -> None:
    topics, names = of(t=settings("s", native="n"))
    names.check(topics, "t", settings("s", native="n"))
    names.check(topics, "t", settings("n2", native="n"))
    names.check_name("t")


def test_a_new_topic_does_not_get_the_name_of_a_subject() -> None:
    _, names = of(orders=settings(""))
    names.check_name("orders")
    names.check_name("values")
    with pytest.raises(KafkaError, match="'orders' publishes its values under the subject") as refused:
        names.check_name("orders.values")
    assert refused.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION


def test_what_is_published_no_more_is_free() -> None:
    topics, names = of(orders=settings("s"))
    changed: Any = topics["orders"]  # type: ignore[index]
    changed.settings = settings()
    names.look([changed])
    names.check_name("s")
    names.check(topics, "t", settings(native="s"))
