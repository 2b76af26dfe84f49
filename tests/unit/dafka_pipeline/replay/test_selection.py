"""What is asked for, and what that is of an archive."""

from __future__ import annotations

import pytest

from dafka_pipeline.failures import Refused, UsageFailure
from dafka_pipeline.kafka.cluster import TopicPartition
from dafka_pipeline.ranges import Span
from dafka_pipeline.replay.pinned import Pinned, check_same, parse_pinned
from dafka_pipeline.replay.selection import (
    BY_KEY,
    Offsets,
    Selection,
    default_id,
    parse_offsets,
    parse_times,
    shown,
    targets_of,
)

THERE = [Span("a", 0, 10, 100), Span("a", 1, 0, 0), Span("b", 0, 0, 50)]


@pytest.mark.parametrize("text", ["0:1-2", "7:-5", "7:5-", "3:-", "a.b/0:1-2"])
def test_parts_of_partitions(text: str) -> None:
    assert shown(parse_offsets(text)) == text


@pytest.mark.parametrize("text", ["", "0", "0:5", "a:1-2", "0:1-2-3", "0:-1-2", "0:1..2"])
def test_what_is_no_part(text: str) -> None:
    with pytest.raises(UsageFailure, match="give PARTITION:FROM-TO"):
        parse_offsets(text)


@pytest.mark.parametrize("text", ["0:5-3", "0:5-5", "a/0:-0"])
def test_parts_with_nothing_in_them(text: str) -> None:
    with pytest.raises(UsageFailure, match="nothing between these offsets"):
        parse_offsets(text)


def test_times() -> None:
    assert parse_times("1000..2000") == (1000, 2000)
    assert parse_times("1970-01-01T00:00:01Z..") == (1000, None)
    assert parse_times("..5") == (None, 5)
    for text in ("..", "1000", "2000..1000", "5..5"):
        with pytest.raises(UsageFailure, match="--times"):
            parse_times(text)


def test_spans_that_are_asked_for() -> None:
    def spans(*offsets: Offsets) -> list[Span]:
        return Selection({"a": "x", "b": "y"}, offsets=offsets).spans(THERE)

    assert spans() == [Span("a", 0, 10, 100), Span("b", 0, 0, 50)]
    assert spans(Offsets("", 0, 20, 30)) == [Span("a", 0, 20, 30), Span("b", 0, 20, 30)]
    assert spans(Offsets("a", 0, None, 30)) == [Span("a", 0, 10, 30)]
    assert spans(Offsets("b", 0, 40, 400)) == [Span("b", 0, 40, 50)]
    for wrong in (Offsets("", 7, None, None), Offsets("a", 0, 100, None), Offsets("a", 1, None, None)):
        with pytest.raises(UsageFailure, match="--offsets"):
            spans(wrong)
    with pytest.raises(UsageFailure, match="one part of each partition"):
        spans(Offsets("a", 0, 10, 20), Offsets("a", 0, 30, 40))


def test_where_topics_go() -> None:
    assert targets_of(["a"], "x", None) == {"a": "x"}
    assert targets_of(["a", "b"], None, "re-") == {"a": "re-a", "b": "re-b"}
    assert targets_of(["a"], None, None) == {"a": "a"}
    for topics, to, prefix in ((["a", "b"], "x", None), (["a"], "x", "y")):
        with pytest.raises(UsageFailure, match="--to"):
            targets_of(topics, to, prefix)


def test_the_same_command_has_the_same_id() -> None:
    def id_of(selection: Selection, bootstrap: str = "h:1", **more: object) -> str:
        options = {"append": False, "version": None, **more}
        return default_id("archive", selection, bootstrap, **options)  # type: ignore[arg-type]

    one = Selection({"a": "x", "b": "y"})
    assert id_of(one) == id_of(Selection({"b": "y", "a": "x"}))
    others = [
        id_of(Selection({"a": "x"})),
        id_of(Selection({"a": "x", "b": "y"}, BY_KEY)),
        id_of(Selection({"a": "x", "b": "y"}, start_ms=5)),
        id_of(one, "h:2"),
        id_of(one, append=True),
        id_of(one, version=3),
    ]
    assert len({id_of(one), *others}) == 7


def pinned(**more: object) -> Pinned:
    given = {"stream": "s", "archive": "a", "version": 3, "selection": "{}", "append": False,
             "spans": tuple(THERE), "topic_ids": {"a": "id"}} | more  # fmt: skip
    return Pinned(**given)  # type: ignore[arg-type]


def test_what_is_kept_comes_back() -> None:
    one = pinned(created={"x": {"retention.ms": "5"}}, threshold=(0, -5, 2, 3))
    one = one.sent_up_to({TopicPartition("a", 0): 50}).sent_up_to({TopicPartition("b", 0): 7})
    assert one.done == {TopicPartition("a", 0): 50, TopicPartition("b", 0): 7}
    assert parse_pinned(one.to_json()) == one
    with pytest.raises(Refused, match="cannot be read"):
        parse_pinned('{"dafka_replay": 99}')


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (pinned(archive="b"), "the archive is another one"),
        (pinned(selection="{1}"), "topics, targets"),
        (pinned(append=True), "--append differs"),
        (pinned(version=4), "begun at version 3 of the table, not 4"),
    ],
)
def test_another_replay_under_the_same_id_is_refused(asked: Pinned, words: str) -> None:
    with pytest.raises(Refused, match=words):
        check_same(pinned(), asked, version_given=True)


def test_the_newest_version_may_have_moved() -> None:
    check_same(pinned(), pinned(version=9), version_given=False)
