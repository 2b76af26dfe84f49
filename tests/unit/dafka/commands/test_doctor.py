"""`dafka doctor`: its questions in Spark's order, and each failure explained."""

import socket
from typing import Any

import pytest

from dafka import cli
from dafka.commands import kafka_client
from dafka.commands.doctor_checks import Doctor, Finding, Verdict
from tests.unit.dafka.commands.fake_kafka import FakeKafka
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.schemas import RESPONSE_CLASSES
from wireproto.records.builder import build_batch


def examine(server: FakeKafka, *topics: str) -> list[Finding]:
    return list(Doctor("127.0.0.1", server.port, topics).examine())


def failure(findings: list[Finding]) -> Finding:
    """The last finding, which must be the only failure."""
    assert [finding.verdict for finding in findings].count(Verdict.FAILED) == 1, findings
    assert findings[-1].verdict is Verdict.FAILED
    assert findings[-1].next_step
    return findings[-1]


def questions(findings: list[Finding]) -> list[str]:
    return [finding.question for finding in findings]


def unused_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
    return port


def test_a_healthy_server_is_asked_what_spark_asks() -> None:
    with FakeKafka() as server:
        findings = examine(server)
        asked = [type(request).__name__ for request in server.requests]
    assert questions(findings) == [
        "connect",
        "ApiVersions",
        "Metadata",
        "advertised address of node 1",
        "DescribeCluster",
        "topic orders",
        "ListOffsets orders",
        "Fetch orders-0",
    ]
    assert {finding.verdict for finding in findings} == {Verdict.OK}
    assert asked == [
        "ApiVersionsRequest",
        "MetadataRequest",
        "ApiVersionsRequest",
        "MetadataRequest",
        "DescribeClusterRequest",
        "ListOffsetsRequest",
        "ListOffsetsRequest",
        "FetchRequest",
    ]
    versions = {type(request).__name__: request.version for request in server.requests}
    assert versions["FetchRequest"] == 17  # as kafka-clients 3.9 does, by topic id
    assert versions["ListOffsetsRequest"] == 9
    assert not any(
        request.allow_auto_topic_creation
        for request in server.requests
        if type(request).__name__ == "MetadataRequest"
    )


def test_records_are_fetched_and_checked() -> None:
    batches = b"".join(
        build_batch([(None, b"x", [], 0)] * 3, base_offset=offset, leader_epoch=0) for offset in (0, 3)
    )
    with FakeKafka() as server:
        server.ends["orders", 1] = 6
        server.answers[ApiKey.FETCH] = lambda request: server.fetch(request, batches)
        findings = examine(server)
        fetched = next(request for request in server.requests if type(request).__name__ == "FetchRequest")
    assert findings[-1].verdict is Verdict.OK
    assert findings[-1].question == "Fetch orders-1"
    assert f"{len(batches)} bytes from offset 0" in findings[-1].text
    assert (fetched.topics[0].partitions[0].partition, fetched.topics[0].partitions[0].fetch_offset) == (1, 0)


@pytest.mark.parametrize(
    ("records", "error_code", "text"),
    [
        (b"", 0, "nothing came from offset 0, although the log goes to 6"),
        (b"\0" * 100, 0, "the records are damaged"),
        (build_batch([(None, b"x", [], 0)], base_offset=4), 0, "asked for offset 0, it sent 4 to 4"),
        (b"", 1, "OFFSET_OUT_OF_RANGE"),
        (b"", 56, "KAFKA_STORAGE_ERROR"),
    ],
)
def test_a_fetch_that_spark_would_choke_on(records: bytes, error_code: int, text: str) -> None:
    with FakeKafka({"orders": 1}) as server:
        server.ends["orders", 0] = 6
        server.answers[ApiKey.FETCH] = lambda request: server.fetch(request, records, error_code)
        found = failure(examine(server))
    assert found.question == "Fetch orders-0"
    assert text in found.text


def test_nothing_listens() -> None:
    found = failure(list(Doctor("127.0.0.1", unused_port(), ()).examine()))
    assert (found.question, found.text.partition(": ")[2]) == ("connect", "nothing listens there")
    assert "dafka standalone" in found.next_step


def test_a_name_without_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "create_connection", unknown)
    found = failure(list(Doctor("kafka.example", 9092, ()).examine()))
    assert "kafka.example:9092: the host name has no address" in found.text


def test_a_server_that_never_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        monkeypatch.setattr(
            "dafka.commands.doctor_checks.KafkaClient",
            lambda host, port, _: kafka_client.KafkaClient(host, port, timeout_seconds=0.05),
        )
        findings = list(Doctor("127.0.0.1", listening.getsockname()[1], ()).examine())
    found = failure(findings)
    assert (found.question, "no answer in time" in found.text) == ("ApiVersions", True)


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "that is a web server"),
        (b"\x15\x03\x03\x00\x02\x02\x0a", "it wants TLS"),
        (b"\xff\xff\xff\xff", "it does not answer as Kafka does"),
        (b"\0\0\0\x04\0\0\0\x63", "it answers another request"),
        (b"\0\0\0\x06\0\0\0\x01\0\0", "its API_VERSIONS answer cannot be read"),
        (b"\0\0", "it closed the connection"),
    ],
)
def test_something_else_listens(raw: bytes, text: str) -> None:
    with FakeKafka() as server:
        server.raw_answer = raw
        if len(raw) < 4:
            server.answers[ApiKey.API_VERSIONS] = lambda _: None
            server.raw_answer = None
        found = failure(examine(server))
    assert found.question == "ApiVersions"
    assert text in found.text


def test_an_old_server_answers_our_version_with_its_own() -> None:
    """It knows no ApiVersions 3 and says so in version 0, as KIP-511 has it."""
    cls: Any = RESPONSE_CLASSES[ApiKey.API_VERSIONS]
    with FakeKafka() as server:
        usual = server.api_versions

        def answer(request: Any) -> Any:
            return usual(request) if request.version == 0 else cls(error_code=35, api_keys=[])

        server.answers[ApiKey.API_VERSIONS] = answer
        findings = examine(server)
    assert {finding.verdict for finding in findings} == {Verdict.OK}


@pytest.mark.parametrize(
    ("key", "offered", "verdict"),
    [
        (ApiKey.FETCH, (18, 18), Verdict.FAILED),
        (ApiKey.METADATA, None, Verdict.FAILED),
        (ApiKey.LIST_OFFSETS, (0, 0), Verdict.FAILED),
        (ApiKey.PRODUCE, (0, 2), Verdict.NOTE),
        (ApiKey.INIT_PRODUCER_ID, None, Verdict.NOTE),
    ],
)
def test_versions_that_spark_cannot_use(
    key: ApiKey, offered: tuple[int, int] | None, verdict: Verdict
) -> None:
    """Without an API of the source nothing more is asked; without one of the sink the rest still is."""
    with FakeKafka() as server:
        del server.versions[key]
        if offered:
            server.versions[key] = offered
        findings = examine(server)
    about = next(finding for finding in findings if finding.question == key.name)
    assert about.verdict is verdict
    assert (f"{offered[0]} to {offered[1]}" if offered else "none of it") in about.text
    assert (findings[-1] is about) == (verdict is Verdict.FAILED)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", ""])
def test_an_advertised_address_that_is_none(host: str) -> None:
    with FakeKafka() as server:
        server.advertised = (host, server.port)
        found = failure(examine(server))
    assert found.question == "advertised address of node 1"
    assert "is no address to connect to" in found.text


def test_an_advertised_address_where_nothing_listens() -> None:
    with FakeKafka() as server:
        server.advertised = ("127.0.0.1", unused_port())
        found = failure(examine(server))
        assert f"clients are told to use 127.0.0.1:{server.advertised[1]}" in found.text
        assert "nothing listens there" in found.text
        assert f"@{server.address}" in found.next_step


def test_an_advertised_address_of_another_cluster() -> None:
    with FakeKafka() as server, FakeKafka() as other:
        other.cluster_id = "somebody-elses"
        server.advertised = ("127.0.0.1", other.port)
        found = failure(examine(server))
    assert "where another cluster answers (somebody-elses)" in found.text


def test_a_loopback_address_told_to_other_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeKafka() as server:
        monkeypatch.setattr(
            "dafka.commands.doctor_checks.KafkaClient",
            lambda _, port, __: kafka_client.KafkaClient("127.0.0.1", port),
        )
        findings = list(Doctor("kafka.example", server.port, ()).examine())
    about = next(finding for finding in findings if finding.question.startswith("advertised"))
    assert about.verdict is Verdict.NOTE
    assert "from no other machine" in about.text
    assert findings[-1].question == "Fetch orders-0"


def test_no_broker_yet() -> None:
    cls: Any = RESPONSE_CLASSES[ApiKey.METADATA]
    with FakeKafka() as server:
        server.answers[ApiKey.METADATA] = lambda _: cls(
            brokers=[], cluster_id="x", controller_id=-1, topics=[]
        )
        assert "names no broker" in failure(examine(server)).text


def test_describe_cluster_names_another_cluster() -> None:
    cls: Any = RESPONSE_CLASSES[ApiKey.DESCRIBE_CLUSTER]
    with FakeKafka() as server:
        server.answers[ApiKey.DESCRIBE_CLUSTER] = lambda _: cls(
            error_code=0, error_message=None, cluster_id="other", controller_id=1, brokers=[]
        )
        assert failure(examine(server)).text == "it names cluster other"


def test_describe_cluster_need_not_be_offered() -> None:
    with FakeKafka() as server:
        del server.versions[ApiKey.DESCRIBE_CLUSTER]
        assert {finding.verdict for finding in examine(server)} == {Verdict.OK}


def test_a_missing_topic_and_the_one_that_was_meant() -> None:
    with FakeKafka() as server:
        found = failure(examine(server, "order"))
    assert found.question == "topic order"
    assert "it is not there; there is orders" in found.text
    assert found.next_step.startswith("dafka topics create order --partitions 4 --bootstrap 127.0.0.1:")


def test_of_two_topics_one_is_missing() -> None:
    with FakeKafka() as server:
        findings = examine(server, "orders", "x")
    assert questions(findings)[-4:] == ["topic orders", "topic x", "ListOffsets orders", "Fetch orders-0"]
    assert [finding.verdict.name for finding in findings[-4:]] == ["OK", "FAILED", "OK", "OK"]


def test_no_topic_yet_is_no_failure() -> None:
    with FakeKafka({"__consumer_offsets": 1}) as server:
        findings = examine(server)
    assert findings[-1].verdict is Verdict.NOTE
    assert "there are none yet" in findings[-1].text
    assert "dafka topics create" in findings[-1].next_step


def test_of_many_topics_some_are_looked_at() -> None:
    with FakeKafka({f"t{number:02}": 1 for number in range(25)}) as server:
        findings = examine(server)
    assert sum(question.startswith("topic t") for question in questions(findings)) == 20
    assert any("5 more: name one with --topic" in finding.text for finding in findings)


def test_a_partition_that_is_being_recovered() -> None:
    with FakeKafka() as server:
        usual = server.list_offsets

        def answer(request: Any) -> Any:
            response = usual(request)
            response.topics[0].partitions[1].error_code = 5
            return response

        server.answers[ApiKey.LIST_OFFSETS] = answer
        found = failure(examine(server))
    assert found.text == "orders-1: LEADER_NOT_AVAILABLE"
    assert "being recovered" in found.next_step


def test_a_partition_without_a_leader() -> None:
    with FakeKafka() as server:
        usual = server.metadata

        def answer(request: Any) -> Any:
            response = usual(request)
            for topic in response.topics:
                topic.partitions[0].leader_id = -1
            return response

        server.answers[ApiKey.METADATA] = answer
        assert "no broker is the leader" in failure(examine(server)).text


@pytest.mark.parametrize("key", [ApiKey.METADATA, ApiKey.DESCRIBE_CLUSTER, ApiKey.LIST_OFFSETS, ApiKey.FETCH])
def test_a_connection_that_is_closed_at_any_question(key: ApiKey) -> None:
    with FakeKafka({"orders": 1}) as server:
        server.answers[key] = lambda _: None
        assert "it closed the connection" in failure(examine(server)).text


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    with FakeKafka() as server:
        assert cli.run(["doctor", server.address]) == 0
        out = capsys.readouterr().out
        assert "--packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0 " in out
        assert f'.option("kafka.bootstrap.servers", "{server.address}")' in out
        assert '.option("subscribe", "orders")' in out
        assert cli.run(["doctor", server.address, "--topic", "nope"]) == 2
        out = capsys.readouterr().out
        assert "FAIL  topic nope: it is not there" in out
        assert "--packages" not in out


def test_the_command_with_no_address_at_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["doctor", "nonsense"]) == 2
    assert capsys.readouterr().err == "dafka: 'nonsense' is not HOST:PORT, for example 127.0.0.1:9092\n"
