"""How a Kafka is reached: one set of options for Spark's Java clients and for librdkafka.

Users write Java's names (`--kafka security.protocol=SASL_SSL`), as everywhere in Spark. Spark gets them as
they are. The driver's own questions and the producers of a replay go through librdkafka, which names some of
them otherwise: those are translated here, and one that has no translation is refused by name instead of being
left out.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from dafka_pipeline.failures import UsageFailure

_SECRETS: Final = re.compile(
    r"password|secret|jaas|\.key$|token(?!\.endpoint\.url)|credential|keystore\.key|\.pem$", re.IGNORECASE
)
HIDDEN: Final = "(hidden)"
SHORTEST_SECRET: Final = 4
"""Shorter ones stand in other words, too: taking them out would spoil messages and hide nothing."""
_SAME: Final = frozenset({
    "client.id", "client.dns.lookup", "client.rack", "security.protocol", "sasl.mechanism",
    "sasl.kerberos.service.name", "sasl.kerberos.kinit.cmd", "sasl.kerberos.min.time.before.relogin",
    "sasl.oauthbearer.token.endpoint.url", "sasl.oauthbearer.scope", "ssl.endpoint.identification.algorithm",
    "ssl.key.password", "connections.max.idle.ms", "metadata.max.age.ms", "reconnect.backoff.ms",
    "reconnect.backoff.max.ms", "retry.backoff.ms", "socket.connection.setup.timeout.ms",
    # Of producers.
    "acks", "batch.size", "compression.type", "delivery.timeout.ms", "enable.idempotence", "linger.ms",
    "max.in.flight.requests.per.connection", "transaction.timeout.ms",
})  # fmt: skip
"""Java's properties that librdkafka has under the same name with the same meaning."""
_RENAMED: Final = {
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "request.timeout.ms": "socket.timeout.ms",
    "max.request.size": "message.max.bytes",
}
_OF_JAVA: Final = frozenset({
    # Of consumers: they matter to Spark's tasks alone.
    "isolation.level", "max.poll.records", "max.partition.fetch.bytes", "fetch.max.bytes", "fetch.min.bytes",
    "fetch.max.wait.ms", "group.id", "default.api.timeout.ms", "check.crcs", "max.poll.interval.ms",
    "session.timeout.ms", "heartbeat.interval.ms", "allow.auto.create.topics",
    # Of producers.
    "buffer.memory", "max.block.ms", "partitioner.class", "retries",
    # How Java does what librdkafka does in its own way.
    "metric.reporters", "metrics.num.samples", "metrics.recording.level", "metrics.sample.window.ms",
    "retry.backoff.max.ms", "security.providers", "socket.connection.setup.timeout.max.ms",
    "sasl.client.callback.handler.class", "sasl.login.callback.handler.class", "sasl.login.class",
    "sasl.login.connect.timeout.ms", "sasl.login.read.timeout.ms", "sasl.login.retry.backoff.ms",
    "sasl.login.retry.backoff.max.ms", "sasl.login.refresh.buffer.seconds",
    "sasl.login.refresh.min.period.seconds", "sasl.login.refresh.window.factor",
    "sasl.login.refresh.window.jitter", "sasl.kerberos.ticket.renew.jitter",
    "sasl.kerberos.ticket.renew.window.factor", "ssl.cipher.suites", "ssl.enabled.protocols",
    "ssl.engine.factory.class", "ssl.keymanager.algorithm", "ssl.protocol", "ssl.provider",
    "ssl.secure.random.implementation", "ssl.trustmanager.algorithm",
})  # fmt: skip
"""Java's own: librdkafka is neither told them nor misses them."""
_STORES: Final = frozenset({
    "ssl.truststore.type", "ssl.truststore.location", "ssl.truststore.password",
    "ssl.truststore.certificates",
    "ssl.keystore.type", "ssl.keystore.location", "ssl.keystore.password", "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
})  # fmt: skip
_CERTIFICATES: Final[Mapping[tuple[str, str], Mapping[str, tuple[str, ...]]]] = {
    ("truststore", "PEM"): {"location": ("ssl.ca.location",), "certificates": ("ssl.ca.pem",)},
    # Java's PEM key store is one file (or text) with the key and its certificates; librdkafka reads both
    # there.
    ("keystore", "PEM"): {
        "location": ("ssl.certificate.location", "ssl.key.location"),
        "certificate.chain": ("ssl.certificate.pem",),
        "key": ("ssl.key.pem",),
    },
    ("keystore", "PKCS12"): {"location": ("ssl.keystore.location",), "password": ("ssl.keystore.password",)},
}
"""(store, type) -> the rest of Java's name -> librdkafka's names."""
_JAAS: Final = re.compile(
    r"(username|password|clientId|clientSecret)\s*=\s*"
    r"""(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))"""
)


@dataclass(frozen=True)
class KafkaOptions:
    """A Kafka and how it is reached.

    bootstrap: HOST:PORT, several with commas.
    properties: Java clients' names and values, as `--kafka` gives them.
    librdkafka: librdkafka's own names and values; they win over what is translated.
    """

    bootstrap: str
    properties: Mapping[str, str] = field(default_factory=dict)
    librdkafka: Mapping[str, str] = field(default_factory=dict)

    def for_spark(self) -> dict[str, str]:
        """Options of Spark's `format("kafka")`."""
        return {"kafka.bootstrap.servers": self.bootstrap} | {
            f"kafka.{name}": value for name, value in self.properties.items()
        }

    def for_librdkafka(self) -> dict[str, str]:
        """The configuration of a confluent-kafka client.

        Raises UsageFailure for a property that librdkafka has not, with what to give instead.
        """
        made = {"bootstrap.servers": self.bootstrap}
        for name, value in self.properties.items():
            made |= self._translated(name, value)
        return made | dict(self.librdkafka)

    def shown(self) -> str:
        """The options in one line for people: what may be a secret is left out."""
        pairs = [
            f"{name}={shown_value(name, value)}"
            for name, value in {**self.properties, **self.librdkafka}.items()
        ]
        return " ".join([self.bootstrap, *pairs])

    def hide(self, text: str) -> str:
        """A text without what may be a secret among the options, whoever wrote it there."""
        for secret in self._secrets:
            text = text.replace(secret, HIDDEN)
        return text

    @cached_property
    def _secrets(self) -> tuple[str, ...]:
        """Longest first: one may hold another (a JAAS line its password)."""
        found = set()
        for name, value in (*self.properties.items(), *self.librdkafka.items()):
            if _SECRETS.search(name):
                found |= {value, *(one for key, one in _jaas(value).items() if _SECRETS.search(key))}
        return tuple(sorted((one for one in found if len(one) >= SHORTEST_SECRET), key=len, reverse=True))

    def __repr__(self) -> str:
        return f"KafkaOptions({self.shown()})"

    def _translated(self, name: str, value: str) -> dict[str, str]:
        """One of Java's properties as librdkafka's."""
        if name in _RENAMED:
            return {_RENAMED[name]: value}
        if name == "ssl.endpoint.identification.algorithm":
            return {name: value or "none"}
        if name in _SAME:
            return {name: value}
        if name in _OF_JAVA:
            return {}
        if name == "sasl.jaas.config":
            return self._from_jaas(value)
        if name in _STORES:
            return self._from_store(name, value)
        raise _unknown(name)

    def _from_jaas(self, value: str) -> dict[str, str]:
        """User and password, or client id and secret, out of a JAAS line."""
        found = _jaas(value)
        if (
            self.properties.get("sasl.mechanism") == "OAUTHBEARER"
            and {"clientId", "clientSecret"} <= found.keys()
        ):
            return {
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.client.id": found["clientId"],
                "sasl.oauthbearer.client.secret": found["clientSecret"],
            }
        if {"username", "password"} <= found.keys():
            return {"sasl.username": found["username"], "sasl.password": found["password"]}
        if any(name.startswith("sasl.") for name in self.librdkafka):
            return {}
        raise UsageFailure(
            "--kafka sasl.jaas.config: it has no username=... and password=... . librdkafka is used beside "
            "Spark's clients: give what it needs, e.g. --librdkafka sasl.kerberos.keytab=FILE."
        )

    def _from_store(self, name: str, value: str) -> dict[str, str]:
        """Certificates: librdkafka reads PEM, and a client's own from PKCS12."""
        store, _, what = name.removeprefix("ssl.").partition(".")
        kind = self.properties.get(f"ssl.{store}.type", "JKS").upper()
        translated = _CERTIFICATES.get((store, kind))
        if translated is not None:
            return dict.fromkeys(translated.get(what, ()), value)
        instead = {"truststore": ("ssl.ca.",), "keystore": ("ssl.keystore.", "ssl.certificate.")}[store]
        if what == "location" and not any(other.startswith(instead) for other in self.librdkafka):
            give = {"truststore": "ssl.ca.location", "keystore": "ssl.keystore.location"}[store]
            raise UsageFailure(
                f"--kafka {name}: librdkafka, which is used beside Spark's clients, does not read a {store} "
                f"of type {kind}. Give it the same as PEM or, for a keystore, PKCS12: --librdkafka "
                f"{give}=FILE; or use --kafka ssl.{store}.type=PEM for both."
            )
        return {}


def shown_value(name: str, value: str) -> str:
    """The value of an option as it may be shown."""
    return HIDDEN if _SECRETS.search(name) else value


def _jaas(line: str) -> dict[str, str]:
    """What a JAAS line says: its quoted values may have escapes."""
    found = {}
    for name, double, single, bare in _JAAS.findall(line):
        found[name] = re.sub(r"\\(.)", r"\1", double or single) or bare
    return found


def _unknown(name: str) -> UsageFailure:
    if name == "bootstrap.servers":
        return UsageFailure("--kafka bootstrap.servers: give it with --bootstrap.")
    known = sorted(_SAME | _RENAMED.keys() | _OF_JAVA | _STORES | {"sasl.jaas.config"})
    near = difflib.get_close_matches(name.removeprefix("kafka."), known, 1)
    meant = f" Is {near[0]} meant?" if near else ""
    return UsageFailure(
        f"--kafka {name}: no property of Kafka's clients that is known here.{meant} Both Spark's clients and "
        "librdkafka are used: what librdkafka alone needs is given with --librdkafka NAME=VALUE."
    )


def check_bootstrap(text: str) -> None:
    """Raises UsageFailure for what is not HOST:PORT[,HOST:PORT...]."""
    for address in text.split(","):
        host, _, port = address.strip().rpartition(":")
        if not host or "/" in host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
            raise UsageFailure(
                f"--bootstrap {text}: '{address.strip()}' is no HOST:PORT. Give e.g. "
                "broker-1:9092,broker-2:9092."
            )
