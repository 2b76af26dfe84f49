"""The peers themselves: what other tests compare with must be right first."""

import base64
from pathlib import Path

import pytest

from tests.peers.apache_kafka import ApacheKafka
from tests.peers.java import java_client, java_tool
from tests.peers.maven import KAFKA_VERSION, OLD_CLIENTS_VERSION, connector_jars
from tests.peers.process import ServerProcess

pytestmark = pytest.mark.slow


def encoded(value: bytes | None) -> str:
    return "-" if value is None else base64.b64encode(value).decode()


@pytest.mark.parametrize("version", [KAFKA_VERSION, OLD_CLIENTS_VERSION])
def test_java_clients_read_back_what_they_wrote(apache_kafka: ApacheKafka, version: str) -> None:
    topic = f"peers-{version}"
    values = [b"plain", b"", None, b"\x00\xff" * 300_000]
    start = 1_700_000_000_000
    content = [
        f"{encoded(b'k%d' % n)}\t{encoded(value)}\tname={encoded(b'h')},none=-"
        for n, value in enumerate(values)
    ]
    lines = [f"{topic}\t0\t{start + n}\t{record}" for n, record in enumerate(content)]
    bootstrap = f"bootstrap.servers={apache_kafka.bootstrap}"

    sent = java_client(
        "Producer", bootstrap, "compression.type=lz4", stdin="\n".join(lines) + "\n", version=version
    )
    read = java_client("AssignedConsumer", bootstrap, f"{topic}:0:0:{len(values)}", version=version)

    assert sent.stdout.splitlines() == [f"0\t{n}\t{start + n}" for n in range(len(values))]
    assert read.stdout.splitlines() == [
        f"{topic}\t0\t{n}\t{start + n}\tCreateTime\t0\t{record}" for n, record in enumerate(content)
    ]


def test_java_producer_reports_a_refused_record_by_kafkas_name(apache_kafka: ApacheKafka) -> None:
    too_large = f"peers-large\t0\t-\t-\t{encoded(bytes(2_000_000))}\t\n"
    settings = [f"bootstrap.servers={apache_kafka.bootstrap}", "max.request.size=3000000"]

    sent = java_client("Producer", *settings, stdin=too_large)

    assert sent.stdout.startswith("error\tRecordTooLargeException\t")


def test_kafka_keeps_its_log_over_a_kill(tmp_path: Path) -> None:
    # A broker that was killed may come back when its controller has given it up.
    soon = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}
    with ApacheKafka(tmp_path, flush_every_message=True, properties=soon) as kafka:
        bootstrap = f"bootstrap.servers={kafka.bootstrap}"
        java_client("Producer", bootstrap, stdin=f"kept\t0\t-\t-\t{encoded(b'value')}\t\n")
        first_pid = kafka.pid
        kafka.kill9()

        kafka.start()

        assert kafka.pid != first_pid
        assert kafka.rss_bytes > 50 << 20
        read = java_client("AssignedConsumer", bootstrap, "kept:0:0:1")
        assert read.stdout.split("\t")[7] == encoded(b"value")


def test_kafkas_own_tools_run(apache_kafka: ApacheKafka) -> None:
    arguments = ["--bootstrap-server", apache_kafka.bootstrap, "--topic", "peers-tool"]
    java_tool("org.apache.kafka.tools.TopicCommand", "--create", "--partitions", "3", *arguments)

    described = java_tool("org.apache.kafka.tools.TopicCommand", "--describe", *arguments).stdout

    assert "PartitionCount: 3" in described
    with pytest.raises(AssertionError, match="already exists"):
        java_tool("org.apache.kafka.tools.TopicCommand", "--create", "--partitions", "3", *arguments)


def test_connector_is_the_four_jars_that_pyspark_lacks() -> None:
    assert [jar.name for jar in connector_jars()] == [
        "commons-pool2-2.12.0.jar",
        "kafka-clients-3.9.0.jar",
        "spark-sql-kafka-0-10_2.13-4.0.0.jar",
        "spark-token-provider-kafka-0-10_2.13-4.0.0.jar",
    ]


def test_a_server_that_ends_by_itself_is_reported_with_what_it_said(tmp_path: Path) -> None:
    class Failing(ServerProcess):
        def start(self) -> None:
            self._spawn(["sh", "-c", "echo 'no such disk' >&2; exit 4"])
            self._wait_until(lambda: None)

    failing = Failing(tmp_path)

    with pytest.raises(AssertionError, match="ended with 4 before it served:\nno such disk"):
        failing.start()
    assert failing.returncode == 4
    assert failing.log == "no such disk\n"
