"""The two servers of a session: started here, or named by the environment for a quicker loop at work.

`KAFKA_BOOTSTRAP=HOST:PORT` is a running Apache Kafka 4.3.1, `DAFKA_BOOTSTRAP=HOST:PORT` one of ours.

And the two that have ACLs: each has a listener without SASL, whose clients may do everything (the set-up, and
Kafka's own controller), and one with SASL. `KAFKA_SECURED=HOST:PORT,HOST:PORT` and `OURS_SECURED` name both
listeners of one that runs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.differential.principals import PASSWORDS, SUPER_USERS
from tests.peers.apache_kafka import ApacheKafka
from tests.peers.standalone import Standalone

Server = ApacheKafka | Standalone

AS_THE_PEER = ("--group-initial-rebalance-delay-ms", "0")
"""As the peer has it: groups need not wait three seconds for more members."""


def running_kafka() -> str | None:
    """The Apache Kafka that the environment names, if it does."""
    return os.environ.get("KAFKA_BOOTSTRAP")


@contextmanager
def kafka_bootstrap() -> Iterator[str]:
    """Apache Kafka's address, for as long as the context lasts."""
    running = running_kafka()
    if running:
        yield running
        return
    with ApacheKafka() as kafka:
        yield kafka.bootstrap


def our_server(data: Path | None = None, *arguments: str, directory: Path | None = None) -> Server:
    """The server under test, not yet started, for tests that kill it: `with our_server() as server`.

    A `dafka standalone` that fsyncs always. With `SERVER_UNDER_TEST=kafka` in the environment it is an Apache
    Kafka that flushes every message instead: a test that fails there is wrong itself.
    """
    if os.environ.get("SERVER_UNDER_TEST") == "kafka":
        return ApacheKafka(flush_every_message=True)
    return Standalone(data, *arguments, directory=directory)


@contextmanager
def our_bootstrap(*arguments: str) -> Iterator[str]:
    """The address of a fresh `dafka standalone`, or of the running one that the environment names."""
    running = os.environ.get("DAFKA_BOOTSTRAP")
    if running:
        yield running
        return
    with our_server(None, *arguments) as ours:
        yield ours.bootstrap


class Doors(NamedTuple):
    """Where a server with ACLs listens, each as HOST:PORT."""

    plain: str
    sasl: str


SASL = "SASL_PLAINTEXT"
OF_THE_LISTENER = f"listener.name.{SASL.lower()}"
MODULES = "org.apache.kafka.common.security"
KNOWN_BY_PLAIN = " ".join(f'user_{user}="{password}"' for user, password in PASSWORDS.items())
SECURED_KAFKA = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": ";".join(SUPER_USERS),
    f"{OF_THE_LISTENER}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    f"{OF_THE_LISTENER}.plain.sasl.jaas.config": (
        f"{MODULES}.plain.PlainLoginModule required {KNOWN_BY_PLAIN};"
    ),
    **{
        f"{OF_THE_LISTENER}.{mechanism}.sasl.jaas.config": f"{MODULES}.scram.ScramLoginModule required;"
        for mechanism in ("scram-sha-256", "scram-sha-512")
    },
}
SECURED_AS_THE_PEER = (
    *AS_THE_PEER, "--listen", f"{SASL}://127.0.0.1:0", "--authorizer", "acl",
    *(argument for user in SUPER_USERS for argument in ("--super-user", user)),
)  # fmt: skip


@contextmanager
def secured_kafka() -> Iterator[Doors]:
    """An Apache Kafka with ACLs, for as long as the context lasts."""
    running = os.environ.get("KAFKA_SECURED")
    if running:
        yield Doors(*running.split(","))
        return
    with ApacheKafka(listeners={SASL: SASL}, properties=SECURED_KAFKA) as kafka:
        yield Doors(kafka.bootstrap, kafka.address(SASL))


@contextmanager
def our_secured() -> Iterator[Doors]:
    """A fresh `dafka standalone` with ACLs, for as long as the context lasts."""
    running = os.environ.get("OURS_SECURED")
    if running:
        yield Doors(*running.split(","))
        return
    with Standalone(None, *SECURED_AS_THE_PEER) as ours:
        plain, sasl = re.findall(r"^Kafka is ready on (\S+)$", ours.stdout, re.MULTILINE)
        yield Doors(plain, sasl)
