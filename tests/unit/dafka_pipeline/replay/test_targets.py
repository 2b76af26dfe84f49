"""What in a topic's configs stands against a replay, and which offsets groups get."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dafka_pipeline.failures import Refused
from dafka_pipeline.kafka.cluster import TopicPartition
from dafka_pipeline.replay.groups import Committed, archived_groups
from dafka_pipeline.replay.source import Facts
from dafka_pipeline.replay.targets import FOREVER, problems

DAY = 86_400_000
NOW = 1_800_000_000_000
GOOD = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": FOREVER,
    "message.timestamp.after.max.ms": "3600000",
    "message.timestamp.difference.max.ms": None,
}


def told(facts: Facts | None = None, *, accept: bool = False, **settings: str | None) -> str:
    given = GOOD | {name.replace("_", "."): value for name, value in settings.items()}
    facts = facts or Facts(10, NOW - 30 * DAY, NOW - DAY, 0)
    return " ".join(problems("t", given, facts, NOW, accept_log_append_time=accept))


def test_nothing_stands_against_a_topic_that_keeps_all() -> None:
    assert told() == ""
    assert told(retention_ms=str(40 * DAY)) == ""
    assert told(message_timestamp_type="LogAppendTime", accept=True) == ""
    assert told(Facts(0, 0, 0, 0), retention_ms="1") == ""
    assert problems("t", dict.fromkeys(GOOD), None, NOW, accept_log_append_time=False) == []


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"cleanup_policy": "compact"}, "is compacted"),
        ({"cleanup_policy": "compact,delete"}, "is compacted"),
        ({"message_timestamp_type": "LogAppendTime"}, "the records' times would be lost"),
        ({"retention_bytes": "1000"}, "retention.bytes=1000"),
        ({"retention_ms": str(30 * DAY)}, "delete it at once, or within a day"),
        ({"retention_ms": str(7 * DAY)}, "delete it at once, or within a day"),
        ({"message_timestamp_before_max_ms": str(DAY)}, "more than 86400000 ms past"),
        ({"message_timestamp_difference_max_ms": str(DAY)}, "ms past"),
    ],
)
def test_what_stands_against_one(settings: dict[str, Any], words: str) -> None:
    assert words in told(**settings)


def test_times_ahead() -> None:
    ahead = Facts(10, NOW - DAY, NOW + DAY, 0)
    assert "more than 3600000 ms ahead" in told(ahead)
    assert told(ahead, message_timestamp_after_max_ms=str(2 * DAY)) == ""


def test_groups_in_what_is_replayed() -> None:
    def one(offset: int) -> dict[str, object]:
        return {"offset": offset, "metadata": f"m{offset}"}

    groups = {
        "g": {"a": {"0": one(5), "1": one(6)}, "other": {"0": one(7)}},
        "h": {"b": {"0": one(8)}},
    }
    text = json.dumps({"taken_at": 1, "groups": groups})
    places = [TopicPartition("a", 0), TopicPartition("b", 0)]
    assert archived_groups(text, {"a": "x", "b": "y"}, places) == [
        Committed("g", TopicPartition("x", 0), 5, "m5"),
        Committed("h", TopicPartition("y", 0), 8, "m8"),
    ]
    with pytest.raises(Refused, match=r"groups\.json"):
        archived_groups(None, {}, places)
