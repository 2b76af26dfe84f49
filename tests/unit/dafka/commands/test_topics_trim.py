"""`dafka topics trim`, against a server that answers as told."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dafka import cli
from tests.unit.dafka.commands.fake_kafka import FakeKafka
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.schemas import RESPONSE_CLASSES

DELETED: Any = RESPONSE_CLASSES[ApiKey.DELETE_RECORDS]
END = 12


def trimming(server: FakeKafka, **errors: int) -> None:
    """Lets DeleteRecords answer; errors by `topic_partition`."""

    def answer(request: Any) -> Any:
        one = DELETED.DeleteRecordsTopicResult
        rows = []
        for topic in request.topics:
            partitions = []
            for wanted in topic.partitions:
                error = errors.get(f"{topic.name}_{wanted.partition_index}", 0)
                start = END if wanted.offset == -1 else wanted.offset
                partitions.append(
                    one.DeleteRecordsPartitionResult(
                        partition_index=wanted.partition_index,
                        low_watermark=-1 if error else start,
                        error_code=error,
                    )
                )
            rows.append(one(name=topic.name, partitions=partitions))
        return DELETED(topics=rows)

    server.answers[ApiKey.DELETE_RECORDS] = answer


def trim(server: FakeKafka, *arguments: str) -> int:
    return cli.run(["topics", "trim", *arguments, "--bootstrap", server.address])


def asked(server: FakeKafka) -> list[tuple[str, list[tuple[int, int]]]]:
    return [
        (topic.name, [(one.partition_index, one.offset) for one in topic.partitions])
        for topic in server.requests[-1].topics
    ]


def test_all_partitions_of_all_topics(capsys: pytest.CaptureFixture[str]) -> None:
    with FakeKafka({"a": 2, "b": 1}) as server:
        trimming(server)
        assert trim(server, "b", "a", "--all") == 0
        assert sorted(asked(server)) == [("a", [(0, -1), (1, -1)]), ("b", [(0, -1)])]
    assert capsys.readouterr().out == (
        "topic  partition  begins at\na      0          12\na      1          12\nb      0          12\n"
    )


def test_one_partition_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    with FakeKafka({"a": 3}) as server:
        trimming(server)
        assert trim(server, "a", "--partition", "1", "--before", "5", "--json") == 0
        assert asked(server) == [("a", [(1, 5)])]
    assert json.loads(capsys.readouterr().out) == [
        {"topic": "a", "partition": 1, "log_start": 5, "error": None}
    ]


def test_a_refusal_names_the_cause_and_the_next_step(capsys: pytest.CaptureFixture[str]) -> None:
    with FakeKafka({"a": 2}) as server:
        trimming(server, a_1=1)
        assert trim(server, "a", "--before", "5") == 2
        out, err = capsys.readouterr()
        assert out == "topic  partition  begins at\na      0          5\n"
        assert err == (
            "dafka: cannot trim a-1: OFFSET_OUT_OF_RANGE, the log ends before that offset. "
            "'dafka topics describe' shows where.\n"
        )
        assert trim(server, "a", "--before", "5", "--json") == 2
        assert json.loads(capsys.readouterr().out)[1] == {
            "topic": "a", "partition": 1, "log_start": None, "error": "OFFSET_OUT_OF_RANGE"
        }  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["a"], "which records? Give either --before OFFSET or --all."),
        (["a", "--all", "--before", "5"], "which records?"),
        (["a", "--all", "--partition", "7"], "a has no partition 7: its partitions are 0 to 1."),
        (["nope", "--all"], "nope: UNKNOWN_TOPIC_OR_PARTITION"),
        (["a", "--before", "-3"], "--before"),
    ],
)
def test_what_cannot_be_meant(arguments: list[str], error: str, capsys: pytest.CaptureFixture[str]) -> None:
    with FakeKafka({"a": 2}) as server:
        trimming(server)
        assert trim(server, *arguments) == 2
        assert all(type(request) is not DELETED for request in server.requests)
    assert error in capsys.readouterr().err


def test_many_refusals_are_one_sentence_for_each_reason(capsys: pytest.CaptureFixture[str]) -> None:
    with FakeKafka({"a": 9}) as server:
        trimming(server, a_0=6, **{f"a_{index}": 1 for index in range(1, 8)})
        assert trim(server, "a", "--before", "5") == 2
    assert capsys.readouterr().err == (
        "dafka: cannot trim a-0: NOT_LEADER_OR_FOLLOWER, it is not served at the moment. Try again. "
        "cannot trim a-1, a-2, a-3, a-4, a-5 and 2 others: OFFSET_OUT_OF_RANGE, the log ends before that "
        "offset. 'dafka topics describe' shows where.\n"
    )
