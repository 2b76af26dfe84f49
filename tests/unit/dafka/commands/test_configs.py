"""`dafka configs` and `dafka topics alter`, against a server that answers as told."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dafka import cli
from tests.unit.dafka.commands.fake_kafka import FakeKafka
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.schemas import RESPONSE_CLASSES

CONFIGS: Any = RESPONSE_CLASSES[ApiKey.DESCRIBE_CONFIGS]
ALTERED: Any = RESPONSE_CLASSES[ApiKey.INCREMENTAL_ALTER_CONFIGS]
GROWN: Any = RESPONSE_CLASSES[ApiKey.CREATE_PARTITIONS]

LONG = (
    "Age of a segment at which it is closed, in milliseconds, as a number. It counts from its first record."
)

GIVEN = [
    ("segment.ms", "5", 1, LONG),
    ("retention.ms", "9", 5, "Age of records."),
    ("max.message.bytes", "7", 3, None),
]


def run(server: FakeKafka, *arguments: str) -> int:
    return cli.run([*arguments, "--bootstrap", server.address])


def described(request: Any) -> Any:
    row = CONFIGS.DescribeConfigsResult
    one = row.DescribeConfigsResourceResult
    return CONFIGS(
        results=[
            row(
                error_code=0 if resource.resource_name != "nope" else 3,
                error_message=None,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                configs=[
                    one(
                        name=name,
                        value=value,
                        read_only=False,
                        config_source=source,
                        is_sensitive=False,
                        config_type=5,
                        documentation=documentation,
                        synonyms=[one.DescribeConfigsSynonym(name=name, value=value, source=source)],
                    )
                    for name, value, source, documentation in GIVEN
                ],
            )
            for resource in request.resources
        ]
    )


def altering(server: FakeKafka, **errors: tuple[int, str]) -> None:
    def alter(request: Any) -> Any:
        rows = []
        for resource in request.resources:
            code, message = errors.get(resource.resource_name, (0, None))
            rows.append(
                ALTERED.AlterConfigsResourceResponse(
                    error_code=code,
                    error_message=message,
                    resource_type=resource.resource_type,
                    resource_name=resource.resource_name,
                )
            )
        return ALTERED(responses=rows)

    def grow(request: Any) -> Any:
        rows = []
        for topic in request.topics:
            code, message = errors.get(f"{topic.name}_partitions", (0, None))
            rows.append(
                GROWN.CreatePartitionsTopicResult(name=topic.name, error_code=code, error_message=message)
            )
        return GROWN(results=rows)

    server.answers[ApiKey.INCREMENTAL_ALTER_CONFIGS] = alter
    server.answers[ApiKey.CREATE_PARTITIONS] = grow
    server.answers[ApiKey.DESCRIBE_CONFIGS] = described


def asked(request: Any) -> list[tuple[int, str, list[tuple[str, int, str | None]]]]:
    return [
        (one.resource_type, one.resource_name, [(c.name, c.config_operation, c.value) for c in one.configs])
        for one in request.resources
    ]


def test_what_was_set_is_shown_with_its_meaning(capsys: pytest.CaptureFixture[str]) -> None:
    with FakeKafka() as server:
        altering(server)
        assert run(server, "configs", "describe", "topic", "orders") == 0
        out = capsys.readouterr().out
        assert out.splitlines() == [
            "topic orders",
            "  config             value  from                          meaning",
            "  segment.ms         5      topic                         " + LONG[:57] + "...",
            "  max.message.bytes  7      cluster, set since its start",
        ]
        assert run(server, "configs", "describe", "topic", "orders", "--all") == 0
        assert "  retention.ms       9      default" in capsys.readouterr().out


def test_json_has_everything(capsys: pytest.CaptureFixture[str]) -> None:
    with FakeKafka() as server:
        altering(server)
        assert run(server, "configs", "describe", "topic", "orders", "--all", "--json") == 0
        ((shown),) = json.loads(capsys.readouterr().out)
    assert (shown["kind"], shown["name"], len(shown["configs"])) == ("topic", "orders", 3)
    assert shown["configs"][0] == {
        "name": "segment.ms",
        "value": "5",
        "source": "topic",
        "read_only": False,
        "documentation": LONG,
        "synonyms": [{"name": "segment.ms", "value": "5", "source": "topic"}],
    }


def test_brokers_are_all_brokers_unless_one_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with FakeKafka() as server:
        altering(server)
        assert run(server, "configs", "describe", "broker") == 0
        assert [(kind, name) for kind, name, _ in described_of(server)] == [(4, "1")]
        assert run(server, "configs", "describe", "broker", "7") == 0
        assert [(kind, name) for kind, name, _ in described_of(server)] == [(4, "7")]
        assert run(server, "configs", "describe", "cluster") == 0
        assert [(kind, name) for kind, name, _ in described_of(server)] == [(4, "")]
    assert "cluster\n" in capsys.readouterr().out


def described_of(server: FakeKafka) -> list[tuple[int, str, Any]]:
    request = server.requests[-1]
    return [(one.resource_type, one.resource_name, one.configuration_keys) for one in request.resources]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["describe", "topic"], "which topic?"),
        (["describe", "cluster", "x"], "cluster takes no name"),
        (["describe", "nonsense"], "'nonsense' is not one of"),
        (["describe", "topic", "nope"], "nope: UNKNOWN_TOPIC_OR_PARTITION"),
        (["alter", "topic", "orders"], "nothing to change. Give --set"),
        (["alter", "topic", "orders", "--set", "novalue"], "--set novalue: write KEY=VALUE"),
        (["alter", "topic", "orders", "--set", "a=1", "--delete", "a"], "a: named twice"),
    ],
)
def test_what_cannot_be_meant(arguments: list[str], error: str, capsys: pytest.CaptureFixture[str]) -> None:
    with FakeKafka() as server:
        altering(server)
        assert run(server, "configs", *arguments) == 2
    assert error in capsys.readouterr().err


def test_configs_are_altered(capsys: pytest.CaptureFixture[str]) -> None:
    with FakeKafka() as server:
        altering(server)
        changes = ["--set", "a=1=2", "--delete", "b", "--append", "c=x", "--subtract", "d=y"]
        assert run(server, "configs", "alter", "topic", "one", "two", *changes) == 0
        expected = [("a", 0, "1=2"), ("c", 2, "x"), ("d", 3, "y"), ("b", 1, None)]
        assert asked(server.requests[-1]) == [(2, "one", expected), (2, "two", expected)]
        assert not server.requests[-1].validate_only
        assert capsys.readouterr().out == "changed topic one\nchanged topic two\n"
        assert run(server, "configs", "alter", "cluster", "--set", "a=1", "--dry-run") == 0
        assert asked(server.requests[-1]) == [(4, "", [("a", 0, "1")])]
        assert server.requests[-1].validate_only
        assert capsys.readouterr().out == "would change cluster\n"


def test_a_refusal_names_the_cause_and_the_next_step(capsys: pytest.CaptureFixture[str]) -> None:
    with FakeKafka() as server:
        altering(server, two=(40, "Unknown topic config name: a."))
        assert run(server, "configs", "alter", "topic", "one", "two", "--set", "a=1") == 2
        out, err = capsys.readouterr()
        assert out == "changed topic one\n"
        assert err == (
            "dafka: cannot change two: INVALID_CONFIG (Unknown topic config name: a). "
            "'dafka configs describe topic NAME --all' shows every config, and what it means.\n"
        )
        assert run(server, "configs", "alter", "topic", "one", "two", "--set", "a=1", "--json") == 2
        shown = json.loads(capsys.readouterr().out)
    assert [(one["name"], one["error"]) for one in shown] == [("one", None), ("two", "INVALID_CONFIG")]


def test_topics_are_altered(capsys: pytest.CaptureFixture[str]) -> None:
    with FakeKafka() as server:
        altering(server)
        changes = ["--partitions", "5", "--set", "a=1", "--delete", "b"]
        assert run(server, "topics", "alter", "one", "two", *changes) == 0
        assert capsys.readouterr().out == (
            "changed one: a=1, b=(default), 5 partitions\nchanged two: a=1, b=(default), 5 partitions\n"
        )
        alter, grow = server.requests[-2:]
        assert asked(alter) == [(2, name, [("a", 0, "1"), ("b", 1, None)]) for name in ("one", "two")]
        assert [(one.name, one.count, one.assignments) for one in grow.topics] == [
            ("one", 5, None), ("two", 5, None)
        ]  # fmt: skip
        assert run(server, "topics", "alter", "one", "--partitions", "6", "--dry-run", "--json") == 0
        assert server.requests[-1].validate_only
        assert json.loads(capsys.readouterr().out) == [
            {"topic": "one", "partitions": 6, "configs": {}, "dry_run": True}
        ]


def test_partitions_that_cannot_be_added(capsys: pytest.CaptureFixture[str]) -> None:
    with FakeKafka() as server:
        altering(server, one_partitions=(37, "Topic already has 5 partition(s)."))
        assert run(server, "topics", "alter", "one", "--partitions", "5") == 2
        assert capsys.readouterr().err == (
            "dafka: cannot add partitions to one: INVALID_PARTITIONS (Topic already has 5 partition(s)). "
            "A topic can only get more partitions than it has.\n"
        )
        assert run(server, "topics", "alter", "one") == 2
        assert "nothing to change" in capsys.readouterr().err


def test_what_is_given_at_the_start_is_told_so(capsys: pytest.CaptureFixture[str]) -> None:
    with FakeKafka() as server:
        altering(server, **{"1": (42, "Cannot update these configs dynamically: [listeners]")})
        assert run(server, "configs", "alter", "broker", "--set", "listeners=x") == 2
    assert capsys.readouterr().err == (
        "dafka: cannot change 1: INVALID_REQUEST (Cannot update these configs dynamically: [listeners]). "
        "What is given at the start is a flag: 'dafka gateway --help'.\n"
    )
