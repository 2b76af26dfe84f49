"""Spark's connector over SASL_SSL, as a user who may do no more than it needs (docs/security.md names that):
batches and streams compared by content, and what becomes of a wrong password and of a missing right.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tests.clients.sample import small_records
from tests.clients.stored import create_topic, put, stored_records
from tests.differential.batches import Record
from tests.peers.secured import Right, Secured
from tests.spark.frames import as_records, numbered, read, read_stream
from tests.spark.program import Program
from tests.spark.test_groups import offset_fetching
from tests.spark.test_streams import finish, sink, to_parquet

pytestmark = pytest.mark.slow

USER, PASSWORD, WRONG = "spark", 'of "spark"; and=nobody', "not-his-7f3a"
REFUSED_SECONDS = 60.0
"""What is refused ends by then. Spark itself asks three times more, a second apart."""
COUNT = 60
PREFIX = "of-spark-"
"""Of the ids of Spark's groups, where its driver joins one."""


def may_read(topic: str) -> tuple[Right, ...]:
    """All that Spark needs to read a topic. (Who may read may describe.)"""
    return (("TOPIC", topic, "LITERAL", "READ"),)


def may_write(topic: str) -> tuple[Right, ...]:
    """All that Spark's sink needs: it has producer ids, too, for it."""
    return (("TOPIC", topic, "LITERAL", "WRITE"),)


MAY_JOIN: Right = ("GROUP", PREFIX, "PREFIXED", "READ")
"""What `useDeprecatedOffsetFetching` takes besides."""


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    secret = tmp_path_factory.mktemp("gateway") / "secret"
    secret.write_text("of the gateways, and of nobody else\n")
    secret.chmod(0o600)
    arguments = ("--authorizer", "acl", "--group-initial-rebalance-delay-ms", "0")
    tokens = ("--delegation-token-secret-file", str(secret))
    with Secured(*arguments, *tokens, protocols=["SASL_SSL"]) as made:
        made.set_password(USER, PASSWORD)
        yield made


def come_in(secured: Secured, password: str = PASSWORD) -> dict[str, str]:
    """Spark's options, with the way in that is documented."""
    escaped = password.replace('"', '\\"')
    login = "org.apache.kafka.common.security.scram.ScramLoginModule"
    return {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": f'{login} required username="{USER}" password="{escaped}";',
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": str(secured.ca),
    }


def topics(secured: Secured, name: str) -> tuple[str, str, list[Record]]:
    """A topic with records that Spark may read, another one that it may write, and the records."""
    source, target = (create_topic(secured.open, f"{name}-{what}", 1) for what in ("source", "target"))
    records = small_records(COUNT)
    put(secured.open, source, records)
    secured.allow(f"User:{USER}", *may_read(source), *may_write(target))
    return source, target, records


def columns(frame: DataFrame, topic: str) -> DataFrame:
    return frame.selectExpr("key", "value", "headers", f"'{topic}' AS topic")


def contents(pairs: list[tuple[int, Record]]) -> list[tuple[bytes | None, bytes | None]]:
    return [(record.key, record.value) for _, record in pairs]


def test_batches(spark: SparkSession, secured: Secured) -> None:
    source, target, records = topics(secured, "batches")
    bootstrap, options = secured.address("SASL_SSL"), come_in(secured)
    frame = read(spark, bootstrap, subscribe=source, includeHeaders="true", **options)
    assert as_records(frame) == {(source, 0): numbered(records)}
    sinks = columns(frame, target).coalesce(1).write.format("kafka")
    sinks.option("kafka.bootstrap.servers", bootstrap).options(**options).save()
    assert contents(stored_records(secured.open, target)) == contents(numbered(records))


def test_a_stream_from_topic_to_topic(spark: SparkSession, secured: Secured, tmp_path: Path) -> None:
    source, target, records = topics(secured, "stream")
    bootstrap, options = secured.address("SASL_SSL"), come_in(secured)
    chosen = {"subscribe": source, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "25"}
    frame = read_stream(spark, bootstrap, includeHeaders="true", **chosen, **options)
    writer = columns(frame, target).writeStream.format("kafka").options(**options)
    writer = writer.option("kafka.bootstrap.servers", bootstrap)
    query = writer.option("checkpointLocation", str(tmp_path / "at")).trigger(availableNow=True).start()
    assert finish(query) == 3
    assert contents(stored_records(secured.open, target)) == contents(numbered(records))


def test_a_driver_in_a_group_takes_a_right_more(
    spark: SparkSession, secured: Secured, tmp_path: Path
) -> None:
    source, _, records = topics(secured, "group")
    options = {"subscribe": source, "startingOffsets": "earliest", "groupIdPrefix": PREFIX}
    frame = read_stream(spark, secured.address("SASL_SSL"), **options, **come_in(secured))
    with offset_fetching(spark, deprecated=True):
        query = to_parquet(frame, tmp_path / "without", availableNow=True)
        said = failure(lambda: query.awaitTermination(REFUSED_SECONDS))
        assert f"Not authorized to access group: {PREFIX}" in said
        secured.allow(f"User:{USER}", MAY_JOIN)
        finish(to_parquet(frame, tmp_path, availableNow=True))
    assert as_records(sink(spark, tmp_path)) == {(source, 0): numbered(records)}


def failure(of: Callable[[], object]) -> str:
    """What Spark says of what cannot be; it says it in bounded time, and without the secret."""
    begun = time.monotonic()
    with pytest.raises((PySparkException, Py4JJavaError)) as raised:
        of()
    said = str(raised.value)
    assert time.monotonic() - begun < REFUSED_SECONDS
    assert [secret for secret in (PASSWORD, WRONG) if secret in said] == []
    return said


def test_who_may_not(spark: SparkSession, secured: Secured) -> None:
    source, target, _ = topics(secured, "denied")
    bootstrap, options = secured.address("SASL_SSL"), come_in(secured)
    put(secured.open, target, small_records(1))
    said = failure(lambda: read(spark, bootstrap, subscribe=target, **options).collect())
    assert f"TopicAuthorizationException: Not authorized to access topics: [{target}]" in said
    frame = spark.createDataFrame([("never",)], "value string")
    sinks = frame.write.format("kafka").option("kafka.bootstrap.servers", bootstrap).options(**options)
    assert "TopicAuthorizationException" in failure(sinks.option("topic", source).save)
    assert len(stored_records(secured.open, source)) == COUNT


def test_a_wrong_password(spark: SparkSession, secured: Secured, tmp_path: Path) -> None:
    """Batch, sink and stream say so; with the right one all of them go on."""
    source, target, records = topics(secured, "wrong")
    bootstrap, options = secured.address("SASL_SSL"), come_in(secured, WRONG)
    refused = "Authentication failed during authentication due to invalid credentials with SASL mechanism"
    assert refused in failure(lambda: read(spark, bootstrap, subscribe=source, **options).collect())
    frame = spark.createDataFrame([("never",)], "value string")
    sinks = frame.write.format("kafka").option("kafka.bootstrap.servers", bootstrap).options(**options)
    assert refused in failure(sinks.option("topic", target).save)
    assert stored_records(secured.open, target) == []
    wanted = {"subscribe": source, "startingOffsets": "earliest"}
    query = to_parquet(read_stream(spark, bootstrap, **wanted, **options), tmp_path, availableNow=True)
    assert refused in failure(lambda: query.awaitTermination(REFUSED_SECONDS))
    right = read_stream(spark, bootstrap, **wanted, **come_in(secured))
    finish(to_parquet(right, tmp_path, availableNow=True))
    assert as_records(sink(spark, tmp_path)) == {(source, 0): numbered(records)}


def test_a_certificate_that_is_not_trusted(spark: SparkSession, secured: Secured) -> None:
    source, _, _ = topics(secured, "untrusted")
    options = {**come_in(secured), "kafka.ssl.truststore.location": str(secured.other_ca)}
    said = failure(lambda: read(spark, secured.address("SASL_SSL"), subscribe=source, **options).collect())
    assert "SslAuthenticationException: SSL handshake failed" in said


def test_delegation_tokens(secured: Secured, tmp_path: Path) -> None:
    """A driver has the connector ask for one, and reads and writes by it alone."""
    source, target, records = topics(secured, "tokens")
    options = come_in(secured)
    settings = tmp_path / "settings"
    settings.write_text("".join(f"{name}={value}\n" for name, value in options.items()))
    arguments = (secured.address("SASL_SSL"), source, target, str(settings), str(tmp_path))
    with Program(
        [sys.executable, "-m", "tests.spark.token_driver", *arguments], tmp_path / "output"
    ) as driver:
        status = driver.wait_for_end()
    assert status == 0, driver.text[-4000:]
    assert contents(stored_records(secured.open, target)) == contents(numbered(records))
    assert PASSWORD not in driver.text
