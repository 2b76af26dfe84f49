"""The questions of `dafka doctor`, in the order in which Spark asks them, and what each failure means.

Each check yields findings; the first that leaves nothing to ask raises `Stop`.
"""

import difflib
import ipaddress
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from enum import Enum
from pathlib import Path
from typing import Any, Final, NamedTuple

from dafka.commands.client_security import IN_THE_CLEAR, ClientSecurity
from dafka.commands.cluster import Cluster
from dafka.commands.connect_advice import CONNECT_ADVICE
from dafka.commands.exits import CommandFailed
from dafka.commands.kafka_client import KafkaClient, KafkaTrouble, Trouble, error_name
from dafka.commands.spark_needs import ERROR_ADVICE, NEEDS
from gateway.front.listeners import WILDCARD_HOSTS, join_host_port
from gateway.security.certificate import (
    ENDS_SOON,
    NotACertificate,
    all_in_pem,
    first_in_pem,
    parse_certificate,
)
from gateway.security.distinguished_name import distinguished_name
from wireproto.kafka.api_keys import ApiKey
from wireproto.records.batch import check_stored
from wireproto.records.errors import InvalidBatch
from wireproto.records.header import read_header

MAX_TOPICS: Final = 20
"""Topics looked at when none is named: enough to see that it works, and soon over where there are many."""

MAX_NAMED: Final = 3
"""Authorities named that have ended: a machine's own list may have many."""

_REPLACE_THE_SERVERS: Final = CONNECT_ADVICE[Trouble.EXPIRED]
"""What to do about a server's certificate that ends."""


class Verdict(Enum):
    """What came of a question; the value is how it is shown."""

    OK = "ok"
    NOTE = "note"
    FAILED = "FAIL"


class Finding(NamedTuple):
    """One line of the answer; `next_step` is what to do about it."""

    verdict: Verdict
    question: str
    text: str
    next_step: str = ""


class Stop(Exception):
    """Nothing further can be asked; the findings so far say why."""


class Doctor:
    """One examination of the server at `host` and `port`."""

    def __init__(
        self, host: str, port: int, topics: Sequence[str], security: ClientSecurity = IN_THE_CLEAR
    ) -> None:
        self._host = host
        self._port = port
        self._named = topics
        self._security = security
        self._address = join_host_port(host, port)

    def examine(self) -> Iterator[Finding]:
        """Every finding, as it is made."""
        try:
            yield from self._examine()
        except Stop:
            return

    def _examine(self) -> Iterator[Finding]:
        begun = time.monotonic()
        try:
            client = KafkaClient(self._host, self._port, self._security)
        except KafkaTrouble as trouble:
            yield self._cannot_talk("connect", trouble)
            return
        with client, Cluster(client) as cluster:
            yield Finding(Verdict.OK, "connect", f"{self._address} in {_ms(begun)}")
            yield from self._look_at_files()
            yield from _good_for(
                f"certificate of {self._address}", client.certificate_ends(), _REPLACE_THE_SERVERS
            )
            yield from self._ask_versions(client)
            metadata = yield from self._ask_metadata(cluster)
            yield from self._check_advertised(cluster, metadata)
            yield from self._describe_cluster(client, metadata)
            topics = yield from self._find_topics(cluster, metadata)
            yield from self._read(cluster, topics)

    def _ask_versions(self, client: KafkaClient) -> Iterator[Finding]:
        try:
            client.negotiate()
        except KafkaTrouble as trouble:
            yield self._cannot_talk("ApiVersions", trouble)
            raise Stop from trouble
        yield Finding(Verdict.OK, "ApiVersions", f"the server offers {len(client.versions)} APIs")
        cannot_read = False
        for need in NEEDS:
            lowest, highest = client.versions.get(need.api_key, (0, -1))
            if max(lowest, need.lowest) <= min(highest, need.highest):
                continue
            has = f"versions {lowest} to {highest}" if highest >= 0 else "none of it"
            cannot_read = cannot_read or not need.is_for_sink
            yield Finding(
                Verdict.NOTE if need.is_for_sink else Verdict.FAILED,
                need.api_key.name,
                f"Spark needs versions {need.lowest} to {need.highest} {need.purpose}; the server has {has}",
                "Spark cannot write there" if need.is_for_sink else "Use a server of Kafka 2.1 or newer",
            )
        if cannot_read:
            raise Stop

    def _ask_metadata(self, cluster: Cluster) -> Generator[Finding, None, Any]:
        try:
            metadata = cluster.metadata(self._named or None)
        except KafkaTrouble as trouble:
            yield self._cannot_talk("Metadata", trouble)
            raise Stop from trouble
        brokers = len(metadata.brokers)
        text = f"{brokers} broker{'s' * (brokers != 1)}, cluster {metadata.cluster_id}"
        if not brokers:
            yield Finding(
                Verdict.FAILED,
                "Metadata",
                "it names no broker",
                "The server is still starting: try again in a moment",
            )
            raise Stop
        yield Finding(Verdict.OK, "Metadata", text)
        return metadata

    def _check_advertised(self, cluster: Cluster, metadata: Any) -> Iterator[Finding]:
        """Whether the addresses that clients are told to use lead to this very cluster."""
        reached = True
        for broker in metadata.brokers:
            finding = self._check_broker(cluster, metadata, broker)
            reached = reached and finding.verdict is not Verdict.FAILED
            yield finding
            told = join_host_port(broker.host, broker.port)
            if finding.verdict is not Verdict.FAILED and told != self._address:
                ends = cluster.leader(broker.node_id).certificate_ends()
                yield from _good_for(
                    f"certificate of {told}, node {broker.node_id}", ends, _REPLACE_THE_SERVERS
                )
        if not reached:
            raise Stop

    def _look_at_files(self) -> Iterator[Finding]:
        """How long the certificates are good for that this side has."""
        if (own := self._security.certificate) is not None:
            yield from _look_at(f"your certificate {own}", own, _look_at_own)
        if (trusted := self._security.ca) is not None:
            yield from _look_at(f"--tls-ca {trusted}", trusted, _look_at_authorities)

    def _check_broker(self, cluster: Cluster, metadata: Any, broker: Any) -> Finding:
        told = join_host_port(broker.host, broker.port)
        question = f"advertised address of node {broker.node_id}"
        mend = (
            f"Start the gateway with the address that clients reach behind an @, for example --listen "
            f"0.0.0.0:{self._port}@{self._address} (in Apache Kafka: advertised.listeners)"
        )
        if broker.host in WILDCARD_HOSTS or not broker.host or not broker.port:
            return Finding(Verdict.FAILED, question, f"{told} is no address to connect to", mend)
        try:
            other = cluster.leader(broker.node_id).ask(
                ApiKey.METADATA, 12, topics=[], allow_auto_topic_creation=False
            )
        except KafkaTrouble as trouble:
            return Finding(
                Verdict.FAILED,
                question,
                f"clients are told to use {told}, and there {trouble.trouble.value}"
                f"{_in_brackets(trouble.detail)}. They ask {self._address} only once and then connect there",
                mend,
            )
        if other.cluster_id != metadata.cluster_id:
            return Finding(
                Verdict.FAILED,
                question,
                f"clients are told to use {told}, where another cluster answers ({other.cluster_id})",
                mend,
            )
        if _is_loopback(broker.host) and not _is_loopback(self._host):
            return Finding(
                Verdict.NOTE, question, f"{told} is this cluster from here, but from no other machine", mend
            )
        return Finding(Verdict.OK, question, f"{told} is reached, and is this cluster")

    def _describe_cluster(self, client: KafkaClient, metadata: Any) -> Iterator[Finding]:
        if ApiKey.DESCRIBE_CLUSTER not in client.versions:
            yield Finding(Verdict.OK, "DescribeCluster", "not offered; clients then ask Metadata")
            return
        try:
            answer = client.ask(ApiKey.DESCRIBE_CLUSTER, 1)
        except KafkaTrouble as trouble:
            yield self._cannot_talk("DescribeCluster", trouble)
            raise Stop from trouble
        if answer.error_code or answer.cluster_id != metadata.cluster_id:
            why = (
                error_name(answer.error_code)
                if answer.error_code
                else f"it names cluster {answer.cluster_id}"
            )
            yield Finding(Verdict.FAILED, "DescribeCluster", why, _advice(why))
            raise Stop
        yield Finding(Verdict.OK, "DescribeCluster", f"the same cluster, controller {answer.controller_id}")

    def _find_topics(self, cluster: Cluster, metadata: Any) -> Generator[Finding, None, Any]:
        topics = [topic for topic in metadata.topics if self._named or not topic.is_internal]
        if not topics:
            yield Finding(
                Verdict.NOTE,
                "topics",
                "there are none yet, and Spark's source creates none",
                f"dafka topics create NAME --partitions 4 --bootstrap {self._address}",
            )
        usable = []
        for topic in topics if self._named else topics[:MAX_TOPICS]:
            if topic.error_code:
                yield self._missing_topic(cluster, topic)
                continue
            usable.append(topic)
            yield Finding(
                Verdict.OK,
                f"topic {topic.name}",
                f"{len(topic.partitions)} partition{'s' * (len(topic.partitions) != 1)}",
            )
        if not self._named and len(topics) > MAX_TOPICS:
            yield Finding(Verdict.NOTE, "topics", f"{len(topics) - MAX_TOPICS} more: name one with --topic")
        return usable

    def _missing_topic(self, cluster: Cluster, topic: Any) -> Finding:
        name, error = str(topic.name), error_name(topic.error_code)
        if error != "UNKNOWN_TOPIC_OR_PARTITION":
            return Finding(Verdict.FAILED, f"topic {name}", error, _advice(error))
        known = [str(each.name) for each in cluster.metadata(None).topics]
        near = difflib.get_close_matches(name, known, n=1)
        did_you_mean = f"; there is {near[0]}" if near else ""
        return Finding(
            Verdict.FAILED,
            f"topic {name}",
            f"it is not there{did_you_mean}. Spark's source creates no topic, whatever the server allows",
            f"dafka topics create {name} --partitions 4 --bootstrap {self._address}",
        )

    def _read(self, cluster: Cluster, topics: Sequence[Any]) -> Iterator[Finding]:
        to_fetch: tuple[Any, Any, int, int] | None = None
        for topic in topics:
            question = f"ListOffsets {topic.name}"
            try:
                earliest = cluster.offsets(topic, Cluster.EARLIEST)
                latest = cluster.offsets(topic, Cluster.LATEST)
            except CommandFailed as failed:
                yield _failed(question, failed)
                continue
            offsets = sum(latest.values()) - sum(earliest.values())
            yield Finding(Verdict.OK, question, f"{offsets} offsets to read")
            for partition in topic.partitions:
                index = partition.partition_index
                candidate = (topic, partition, earliest[index], latest[index])
                if to_fetch is None or (to_fetch[2] == to_fetch[3] and earliest[index] < latest[index]):
                    to_fetch = candidate
        if to_fetch is not None:
            yield _fetch(cluster, *to_fetch)

    def _cannot_talk(self, question: str, trouble: KafkaTrouble) -> Finding:
        return Finding(Verdict.FAILED, question, str(trouble).rstrip("."), CONNECT_ADVICE[trouble.trouble])


def _fetch(cluster: Cluster, topic: Any, partition: Any, earliest: int, latest: int) -> Finding:
    question = f"Fetch {topic.name}-{partition.partition_index}"
    begun = time.monotonic()
    try:
        records = cluster.fetch(topic, partition.partition_index, partition.leader_id, earliest)
    except CommandFailed as failed:
        return _failed(question, failed)
    if earliest == latest:
        return Finding(Verdict.OK, question, f"empty; it waited {_ms(begun)} for records, as it should")
    if not records:
        return Finding(
            Verdict.FAILED,
            question,
            f"nothing came from offset {earliest}, although the log goes to {latest}; Spark would wait 120 s "
            "for it and fail",
            "Look into the server's log",
        )
    try:
        header = read_header(memoryview(records))
        check_stored(memoryview(records)[: header.size])
    except InvalidBatch as invalid:
        return Finding(
            Verdict.FAILED, question, f"the records are damaged: {invalid}", "Look into the server's log"
        )
    if not header.base_offset <= earliest <= header.last_offset:
        return Finding(
            Verdict.FAILED,
            question,
            f"asked for offset {earliest}, it sent {header.base_offset} to {header.last_offset}",
            "Look into the server's log",
        )
    text = f"{len(records)} bytes from offset {header.base_offset}, checksum right, in {_ms(begun)}"
    return Finding(Verdict.OK, question, text)


def _look_at(question: str, path: Path, look: Callable[[str, str], Iterator[Finding]]) -> Iterator[Finding]:
    """What there is to say of a file, which OpenSSL has taken: what cannot be read here may still do."""
    try:
        yield from look(question, path.read_text("ascii", "replace"))
    except NotACertificate as error:
        yield Finding(Verdict.NOTE, question, f"until when it is good cannot be read: {error}")


def _look_at_own(question: str, pem: str) -> Iterator[Finding]:
    ends = parse_certificate(first_in_pem(pem)).ends
    yield from _good_for(question, ends, "Have another made: the server will refuse it")


def _look_at_authorities(question: str, pem: str) -> Iterator[Finding]:
    """One that has ended does no harm beside others: the next one is added before its end."""
    found = [parse_certificate(one) for one in all_in_pem(pem)]
    now = datetime.now(UTC)
    ended = [one for one in found if one.ends < now]
    good = [one for one in found if one.ends >= now]
    if ended and good:
        more = len(ended) - MAX_NAMED
        names = "; ".join(distinguished_name(one.subject) for one in ended[:MAX_NAMED])
        yield Finding(
            Verdict.NOTE,
            f"{question}, what has ended in it",
            f"{names}{f'; and {more} more' if more > 0 else ''}: what it has signed is refused",
            "Take it out of the file once the servers have certificates of the next authority",
        )
    soonest = min((one.ends for one in good or ended), default=None)
    yield from _good_for(question, soonest, "Get the authority's next certificate, and add it to the file")


def _good_for(question: str, ends: datetime | None, next_step: str) -> Iterator[Finding]:
    """Until when a certificate is good; nothing where there is none."""
    if ends is None:
        return
    left, when = ends - datetime.now(UTC), ends.strftime("%Y-%m-%d %H:%M UTC")
    if left < timedelta(0):
        yield Finding(Verdict.FAILED, question, f"it has ended, at {when}", next_step)
    elif left < ENDS_SOON:
        yield Finding(Verdict.NOTE, question, f"it ends in {left.days} days, at {when}", next_step)
    else:
        yield Finding(Verdict.OK, question, f"good for {left.days} days, until {when}")


def _failed(question: str, failed: CommandFailed) -> Finding:
    if isinstance(failed, KafkaTrouble):
        return Finding(Verdict.FAILED, question, str(failed).rstrip("."), CONNECT_ADVICE[failed.trouble])
    return Finding(Verdict.FAILED, question, str(failed), _advice(str(failed)))


def _advice(error: str) -> str:
    found = next((advice for name, advice in ERROR_ADVICE.items() if name in error), None)
    return found or "Look into the server's log"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _in_brackets(detail: str) -> str:
    return f" ({detail})" if detail else ""


def _ms(begun: float) -> str:
    return f"{(time.monotonic() - begun) * 1000:.1f} ms"
