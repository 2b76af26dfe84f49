"""The same `--kafka` options let Spark's clients and librdkafka in; what is wrong with them is said, and no
secret."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dafka_pipeline.failures import UsageFailure
from dafka_pipeline.kafka.cluster import Cluster, TopicPartition
from dafka_pipeline.kafka.frames import read_spans
from dafka_pipeline.kafka.options import KafkaOptions
from dafka_pipeline.ranges import Span
from dafka_pipeline.spark.errors import explain_spark
from tests.clients.sample import small_records
from tests.clients.stored import create_topic, put
from tests.peers.maven import pipeline_jars
from tests.peers.secured import Right
from tests.peers.secured import Secured as OurSecured
from tests.pipelines.dumps import archive_rows, topic_rows
from tests.pipelines.secured import PASSWORD, STORE_PASSWORD, USER, Secured, jaas, secured_kafka
from tests.pipelines.settings import SMALL

pytestmark = [pytest.mark.slow, pytest.mark.matrix]

TOPIC = "orders"
COUNT = 40
ARCHIVING: tuple[Right, ...] = (("TOPIC", TOPIC, "LITERAL", "READ"),)
REPLAYING: tuple[Right, ...] = (
    *(("TOPIC", "again", "LITERAL", what) for what in ("READ", "WRITE", "DESCRIBE_CONFIGS")),
    ("TRANSACTIONAL_ID", "again-1", "PREFIXED", "WRITE"),
)
BOUND_SECONDS = 120
"""A refused client ends; how fast is another question."""


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with secured_kafka(tmp_path_factory.mktemp("secured")) as made:
        create_topic(made.kafka.bootstrap, TOPIC)
        put(made.kafka.bootstrap, TOPIC, small_records(COUNT))
        yield made


@pytest.mark.parametrize("way", Secured.WAYS)
def test_the_same_options_let_both_clients_in(spark: SparkSession, secured: Secured, way: str) -> None:
    options = KafkaOptions(secured.bootstrap(way), secured.options(way))
    cluster = Cluster(options)
    partition = TopicPartition(TOPIC, 0)
    assert cluster.topics([TOPIC])[TOPIC].partitions == 1
    assert cluster.end_offsets([partition]) == {partition: COUNT}
    read = read_spans(spark, options, [Span(TOPIC, 0, 0, COUNT)]).orderBy("offset").collect()
    found = [(row["offset"], row["key"], row["value"]) for row in read]
    expected = [
        (row.offset, row.record.key, row.record.value) for row in topic_rows(secured.kafka.bootstrap, TOPIC)
    ]
    assert found == expected


@pytest.mark.parametrize(
    "way",
    [
        pytest.param("plain", marks=pytest.mark.long),
        pytest.param("scram", marks=pytest.mark.long),
        "scram over TLS",
    ],
)
def test_a_wrong_password_is_refused_by_both(spark: SparkSession, secured: Secured, way: str) -> None:
    options = KafkaOptions(secured.bootstrap(way), secured.options(way, "wrong-password"))
    with pytest.raises(
        UsageFailure, match=r"does not let this client in: .*[Aa]uthentication.*sasl.jaas.config"
    ):
        Cluster(options).topics([TOPIC])
    with pytest.raises(Exception, match="Exception") as raised:
        read_spans(spark, options, [Span(TOPIC, 0, 0, COUNT)]).collect()
    failure = explain_spark(raised.value)
    assert type(failure) is UsageFailure
    assert "Kafka does not let this user in" in str(failure)
    assert "wrong-password" not in f"{raised.value}{failure}"


def test_a_certificate_that_is_not_trusted_is_refused_by_both(spark: SparkSession, secured: Secured) -> None:
    trusting = {"security.protocol": "SASL_SSL", **secured.options("scram")} | {
        "security.protocol": "SASL_SSL"
    }
    options = KafkaOptions(secured.bootstrap("scram over TLS"), trusting)
    with pytest.raises(UsageFailure, match=r"does not let this client in: .*ssl.truststore.location"):
        Cluster(options).topics([TOPIC])
    with pytest.raises(Exception, match="Exception") as raised:
        read_spans(spark, options, [Span(TOPIC, 0, 0, COUNT)]).collect()
    failure = explain_spark(raised.value)
    assert type(failure) is UsageFailure
    assert "TLS to Kafka fails" in str(failure)


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    conf = [f"--conf={name}={value}" for name, value in SMALL.items()]
    return subprocess.run(
        [sys.executable, "-m", "dafka_pipeline", *arguments, "--master=local[2]", *conf],
        capture_output=True,
        text=True,
        timeout=BOUND_SECONDS,
        check=False,
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "DAFKA_PIPELINE_JARS": str(pipeline_jars()),
        },
    )


def test_no_secret_is_in_anything_that_is_written(secured: Secured, tmp_path: Path) -> None:
    """Out of a whole job that speaks as much as it can, with Spark's own log of events."""
    way = "scram over TLS"
    properties = {**secured.options(way), "ssl.key.password": STORE_PASSWORD}
    (tmp_path / "kafka.properties").write_text(
        "# a comment\n" + "".join(f"{name}={value}\n" for name, value in properties.items())
    )
    events = tmp_path / "events"
    events.mkdir()
    arguments = (
        *("archive", "--topics", TOPIC, "--to", str(tmp_path / "archive"), "--once"),
        *("--bootstrap", secured.bootstrap(way), "--kafka-file", "kafka.properties"),
        *("--json", "--verbose", "--conf=spark.eventLog.enabled=true", f"--conf=spark.eventLog.dir={events}"),
        "--conf=spark.eventLog.compress=false",
    )
    done = run(tmp_path, *arguments)
    assert done.returncode == 0, done.stderr[-4000:]
    result = json.loads(done.stdout)
    assert (result["event"], result["rows"]) == ("result", COUNT)
    assert archive_rows(tmp_path / "archive") == topic_rows(secured.kafka.bootstrap, TOPIC)
    (tmp_path / "kafka.properties").unlink()
    written = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert any(events in path.parents for path in written)
    everything = b"".join(written.values()) + done.stdout.encode() + done.stderr.encode()
    # Spark did speak, and wrote down what it did.
    assert " INFO " in done.stderr
    assert b"SparkListenerTaskEnd" in everything
    secrets = [PASSWORD, PASSWORD.replace('"', '\\"'), json.dumps(PASSWORD)[1:-1], STORE_PASSWORD]
    assert [one for one in secrets if one.encode() in everything] == []


def test_jobs_against_our_own_gateway(tmp_path: Path) -> None:
    """An archive and its replay, as a user who may read one topic and write another one, and no more."""
    with OurSecured("--authorizer", "acl", protocols=["SASL_SSL"]) as gateway:
        for topic in (TOPIC, "again"):
            create_topic(gateway.open, topic)
        put(gateway.open, TOPIC, small_records(COUNT))
        gateway.set_password(USER, PASSWORD)
        gateway.allow(f"User:{USER}", *ARCHIVING, *REPLAYING)
        properties = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": jaas("scram.Scram"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(gateway.ca),
        }
        (tmp_path / "kafka.properties").write_text(
            "".join(f"{name}={value}\n" for name, value in properties.items())
        )
        common = ("--bootstrap", gateway.address("SASL_SSL"), "--kafka-file", "kafka.properties", "--json")
        table = str(tmp_path / "archive")
        jobs = [
            ("archive", "--topics", TOPIC, "--to", table, "--once"),
            ("replay", table, "--topics", TOPIC, "--to", "again", "--id", "again-1"),
        ]
        for job in jobs:
            done = run(tmp_path, *job, *common)
            assert done.returncode == 0, done.stderr[-4000:]
        assert archive_rows(tmp_path / "archive") == topic_rows(gateway.open, TOPIC)
        copied = [row.record for row in topic_rows(gateway.open, "again")]
        wanted = [row.record for row in topic_rows(gateway.open, TOPIC)]
        # A replay adds one header.
        assert [replace(one, headers=one.headers[:-1]) for one in copied] == wanted


def test_a_wrong_password_ends_a_job_at_once_without_showing_it(secured: Secured, tmp_path: Path) -> None:
    (tmp_path / "kafka.properties").write_text(
        "".join(f"{name}={value}\n" for name, value in secured.options("plain", "wrong-password").items())
    )
    arguments = (
        *("archive", "--topics", TOPIC, "--to", str(tmp_path / "archive"), "--once", "--json"),
        *("--bootstrap", secured.bootstrap("plain"), "--kafka-file", "kafka.properties"),
    )
    done = run(tmp_path, *arguments)
    assert done.returncode == 2, done.stderr[-4000:]
    (failed,) = [json.loads(line) for line in done.stderr.splitlines()]
    assert failed["event"] == "failed"
    assert "does not let this client in" in failed["text"]
    assert "wrong-password" not in done.stdout + done.stderr
