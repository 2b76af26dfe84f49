"""`dafka topics`, against a server that answers as told."""

from typing import Any

import pytest

from dafka import cli
from tests.unit.dafka.commands.fake_kafka import TOPIC_ID, FakeKafka
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.schemas import RESPONSE_CLASSES

CREATE: Any = RESPONSE_CLASSES[ApiKey.CREATE_TOPICS]
DELETE: Any = RESPONSE_CLASSES[ApiKey.DELETE_TOPICS]
CONFIGS: Any = RESPONSE_CLASSES[ApiKey.DESCRIBE_CONFIGS]


def topics(server: FakeKafka, *arguments: str) -> int:
    return cli.run(["topics", *arguments, "--bootstrap", server.address])


def created(server: FakeKafka, errors: dict[str, tuple[int, str]]) -> None:
    """Lets CreateTopics answer with these errors."""

    def answer(request: Any) -> Any:
        rows = []
        for topic in request.topics:
            code, message = errors.get(topic.name, (0, None))
            rows.append(
                CREATE.CreatableTopicResult(
                    name=topic.name,
                    topic_id=TOPIC_ID,
                    error_code=code,
                    error_message=message,
                    num_partitions=-1 if code else max(topic.num_partitions, 3),
                    replication_factor=1,
                    configs=[],
                )
            )
        return CREATE(topics=rows)

    server.answers[ApiKey.CREATE_TOPICS] = answer


def deleted(server: FakeKafka, errors: dict[str, int]) -> None:
    def answer(request: Any) -> Any:
        names = [topic.name for topic in request.topics] if request.version >= 6 else request.topic_names
        rows = [
            DELETE.DeletableTopicResult(name=name, topic_id=TOPIC_ID, error_code=errors.get(name, 0))
            for name in names
        ]
        return DELETE(responses=rows)

    server.answers[ApiKey.DELETE_TOPICS] = answer


def test_create_asks_for_what_was_given(capsys: pytest.CaptureFixture[str]) -> None:
    with FakeKafka() as server:
        created(server, {})
        arguments = [
            "--partitions",
            "4",
            "--replication-factor",
            "2",
            "--config",
            "a.b=c=d",
            "--config",
            "e=",
        ]
        assert topics(server, "create", "x", "y", *arguments) == 0
        request = server.requests[-1]
    assert [(t.name, t.num_partitions, t.replication_factor) for t in request.topics] == [
        ("x", 4, 2),
        ("y", 4, 2),
    ]
    assert [(c.name, c.value) for c in request.topics[0].configs] == [("a.b", "c=d"), ("e", "")]
    assert not request.validate_only
    assert capsys.readouterr().out == "created x with 4 partitions\ncreated y with 4 partitions\n"


def test_create_leaves_sizes_to_the_server(capsys: pytest.CaptureFixture[str]) -> None:
    with FakeKafka() as server:
        created(server, {})
        assert topics(server, "create", "x") == 0
        topic = server.requests[-1].topics[0]
    assert (topic.num_partitions, topic.replication_factor) == (-1, -1)
    assert capsys.readouterr().out == "created x with 3 partitions\n"


def test_create_says_what_failed_and_what_did_not(capsys: pytest.CaptureFixture[str]) -> None:
    with FakeKafka() as server:
        created(server, {"there": (36, "Topic 'there' already exists."), "bad": (40, "no such config")})
        assert topics(server, "create", "there", "new", "bad") == 2
        out, err = capsys.readouterr()
        assert out == "created new with 3 partitions\n"
        assert err == (
            "dafka: cannot create there: TOPIC_ALREADY_EXISTS (Topic 'there' already exists); "
            "bad: INVALID_CONFIG (no such config). Add --if-not-exists if that is fine.\n"
        )
        assert topics(server, "create", "there", "new", "--if-not-exists") == 0
        assert capsys.readouterr().out == "there is there already\ncreated new with 3 partitions\n"
        assert topics(server, "create", "bad", "--if-not-exists") == 2


@pytest.mark.parametrize("wrong", [["--partitions", "0"], ["--partitions", "x"], ["--config", "novalue"], []])
def test_create_refuses_nonsense_without_asking(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with FakeKafka() as server:
        assert topics(server, "create", *(["x", *wrong] if wrong else [])) == 2
        assert server.requests == []
    assert capsys.readouterr().err.startswith("dafka: ")


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    with FakeKafka({"b": 1, "a": 1, "__consumer_offsets": 1}) as server:
        assert topics(server, "list") == 0
        assert capsys.readouterr().out == "a\nb\n"
        assert topics(server, "list", "--internal") == 0
        assert capsys.readouterr().out == "__consumer_offsets\na\nb\n"
        assert not server.requests[-1].allow_auto_topic_creation


def test_describe(capsys: pytest.CaptureFixture[str]) -> None:
    def configs(request: Any) -> Any:
        row = CONFIGS.DescribeConfigsResult
        given = [("segment.ms", "5", 1), ("retention.ms", "9", 5)]
        return CONFIGS(
            results=[
                row(
                    error_code=0,
                    error_message=None,
                    resource_type=2,
                    resource_name=resource.resource_name,
                    configs=[
                        row.DescribeConfigsResourceResult(
                            name=name,
                            value=value,
                            read_only=False,
                            config_source=source,
                            is_sensitive=False,
                            synonyms=[],
                        )
                        for name, value, source in given
                    ],
                )
                for resource in request.resources
            ]
        )

    with FakeKafka({"orders": 2}) as server:
        server.ends["orders", 1] = 12
        server.answers[ApiKey.DESCRIBE_CONFIGS] = configs
        assert topics(server, "describe", "orders") == 0
        assert capsys.readouterr().out == (
            f"orders  id {TOPIC_ID}  2 partitions\n"
            "  segment.ms=5\n"
            "  partition 0  leader 1  replicas 1  isr 1  offsets 0 to 0\n"
            "  partition 1  leader 1  replicas 1  isr 1  offsets 0 to 12\n"
        )
        assert topics(server, "describe", "nope") == 2
        assert "nope: UNKNOWN_TOPIC_OR_PARTITION" in capsys.readouterr().err


@pytest.mark.parametrize("version", [6, 5])
def test_delete(version: int, capsys: pytest.CaptureFixture[str]) -> None:
    with FakeKafka() as server:
        server.versions[ApiKey.DELETE_TOPICS] = (1, version)
        deleted(server, {"gone": 3})
        assert topics(server, "delete", "a", "gone") == 2
        out, err = capsys.readouterr()
        assert out == "deleted a\n"
        assert "cannot delete gone: UNKNOWN_TOPIC_OR_PARTITION" in err
        assert topics(server, "delete", "a", "gone", "--if-exists") == 0
        assert capsys.readouterr().out == "deleted a\ngone is not there\n"
        assert server.requests[-1].version == version


def test_without_a_server(capsys: pytest.CaptureFixture[str]) -> None:
    with FakeKafka() as server:
        address = server.address
    assert cli.run(["topics", "list", "--bootstrap", address]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"dafka: {address}: nothing listens there. Start a gateway with 'dafka standalone'")


def test_the_bootstrap_address_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with FakeKafka({"a": 1}) as server:
        monkeypatch.setenv("DAFKA_BOOTSTRAP", f"{server.address},other:9092")
        assert cli.run(["topics", "list"]) == 0
    assert capsys.readouterr().out == "a\n"


def test_an_operation_that_the_server_does_not_offer(capsys: pytest.CaptureFixture[str]) -> None:
    with FakeKafka() as server:
        del server.versions[ApiKey.CREATE_TOPICS]
        assert topics(server, "create", "x") == 2
        server.versions[ApiKey.CREATE_TOPICS] = (0, 1)
        assert topics(server, "create", "x") == 2
    err = capsys.readouterr().err
    assert "it does not offer what is needed (no CREATE_TOPICS)" in err
    assert "(CREATE_TOPICS only in versions 0 to 1)" in err
