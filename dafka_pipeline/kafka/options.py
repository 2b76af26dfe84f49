"""How a Kafka is reached: one set of options for Spark's Java clients and for librdkafka.

Users write Java's names (`--kafka security.protocol=SASL_SSL`), as everywhere in Spark. Spark gets them as
they are. The driver's own questions and the producers of a replay go through librdkafka, which names some of
them otherwise: those are translated here, and one that has no translation is refused by name instead of being
left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from dafka_pipeline.failures import UsageFailure

_SECRETS: Final = re.compile(
    r"password|secret|jaas|\.key$|token|credential|keystore\.key|\.pem$", re.IGNORECASE
)
HIDDEN: Final = "(hidden)"
SHORTEST_SECRET: Final = 4
"""Shorter ones stand in other words, too: taking them out would spoil messages and hide nothing."""
_SAME: Final = frozenset({
    "client.id", "client.dns.lookup", "client.rack", "security.protocol", "sasl.mechanism",
    "sasl.kerberos.service.name", "ssl.endpoint.identification.algorithm", "ssl.cipher.suites",
    "ssl.key.password", "connections.max.idle.ms",
    "metadata.max.age.ms", "reconnect.backoff.ms", "reconnect.backoff.max.ms", "retry.backoff.ms",
    "request.timeout.ms", "sasl.oauthbearer.token.endpoint.url", "sasl.oauthbearer.scope",
})  # fmt: skip
"""Java's properties that librdkafka has under the same name with the same meaning."""
_RENAMED: Final = {
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "request.timeout.ms": "socket.timeout.ms",
}
_OF_CONSUMERS: Final = frozenset({
    "isolation.level", "max.poll.records", "max.partition.fetch.bytes", "fetch.max.bytes", "fetch.min.bytes",
    "fetch.max.wait.ms", "group.id", "default.api.timeout.ms", "check.crcs", "max.poll.interval.ms",
})  # fmt: skip
"""Java consumers' own: they matter to Spark's tasks alone."""
_JAAS: Final = re.compile(r'(username|password|clientId|clientSecret)\s*=\s*"((?:[^"\\]|\\.)*)"')


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
            made |= _translated(name, value, self.properties)
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
                found |= {
                    value,
                    *(
                        re.sub(r"\\(.)", r"\1", text)
                        for key, text in _JAAS.findall(value)
                        if _SECRETS.search(key)
                    ),
                }
        return tuple(sorted((one for one in found if len(one) >= SHORTEST_SECRET), key=len, reverse=True))

    def __repr__(self) -> str:
        return f"KafkaOptions({self.shown()})"


def shown_value(name: str, value: str) -> str:
    """The value of an option as it may be shown."""
    return HIDDEN if _SECRETS.search(name) else value


def _translated(name: str, value: str, all_of_them: Mapping[str, str]) -> dict[str, str]:
    if name in _RENAMED:
        return {_RENAMED[name]: value}
    if name in _SAME:
        if name == "ssl.endpoint.identification.algorithm":
            return {name: value or "none"}
        return {name: value}
    if name in _OF_CONSUMERS:
        return {}
    if name == "sasl.jaas.config":
        return _from_jaas(value, all_of_them.get("sasl.mechanism", "GSSAPI"))
    if name.startswith("ssl."):
        return _from_ssl(name, value, all_of_them)
    raise UsageFailure(
        f"--kafka {name}: Spark's clients may know it, librdkafka has no such property, and both are used. "
        f"Give what librdkafka needs with --librdkafka NAME=VALUE, or leave it out."
    )


def _from_jaas(value: str, mechanism: str) -> dict[str, str]:
    """User and password, or client id and secret, out of a JAAS line."""
    found = {key: re.sub(r"\\(.)", r"\1", text) for key, text in _JAAS.findall(value)}
    if mechanism == "OAUTHBEARER" and {"clientId", "clientSecret"} <= found.keys():
        return {
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": found["clientId"],
            "sasl.oauthbearer.client.secret": found["clientSecret"],
        }
    if {"username", "password"} <= found.keys():
        return {"sasl.username": found["username"], "sasl.password": found["password"]}
    raise UsageFailure(
        '--kafka sasl.jaas.config: no username="..." and password="..." are found in it. librdkafka is used '
        "beside Spark's clients: give what it needs, e.g. --librdkafka sasl.kerberos.keytab=FILE."
    )


def _from_ssl(name: str, value: str, all_of_them: Mapping[str, str]) -> dict[str, str]:
    store, _, what = name.removeprefix("ssl.").partition(".")
    kind = all_of_them.get(f"ssl.{store}.type", "JKS").upper()
    if what == "type":
        return {}
    if store == "truststore" and kind == "PEM":
        return {"location": {"ssl.ca.location": value}, "certificates": {"ssl.ca.pem": value}}.get(what, {})
    if store == "keystore" and kind == "PEM":
        # Java's PEM key store is one file (or text) with the key and its certificates; librdkafka reads both.
        return {
            "location": {"ssl.certificate.location": value, "ssl.key.location": value},
            "certificate.chain": {"ssl.certificate.pem": value},
            "key": {"ssl.key.pem": value},
        }.get(what, {})
    if store == "keystore" and kind == "PKCS12":
        return {
            "location": {"ssl.keystore.location": value},
            "password": {"ssl.keystore.password": value},
        }.get(what, {})
    if store in {"truststore", "keystore"}:
        # Another option of the same set says where librdkafka finds the same certificates.
        return {}
    if name in {"ssl.protocol", "ssl.enabled.protocols"}:
        return {}
    raise UsageFailure(f"--kafka {name}: librdkafka has no such property. Leave it out, or use --librdkafka.")
