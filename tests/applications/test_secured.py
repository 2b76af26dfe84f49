"""`dafka init`, a listener that is encrypted and asks who comes, `dafka users`, and who comes in there."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer, KafkaProducer

from tests.applications.test_ephemeral import SECONDS, await_that
from tests.peers.certificates import self_signed
from tests.peers.standalone import Standalone

PASSWORDS = {"admin": "of the admin", "alice": "p\u00e4ssword, of=alice", "wrong": "not-his-7f3a"}
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


class Secured(NamedTuple):
    """A server, and the files of its clients."""

    server: Standalone
    ca: Path
    folder: Path

    @property
    def bootstrap(self) -> str:
        return self.server.bootstrap

    def dafka(self, *arguments: str, user: str = "alice", password: str = "") -> tuple[int, str, str]:
        """Exit code and both outputs of a command that comes in as a user."""
        file = str(self.folder / f"{password or user}.password")
        secured = [
            "--bootstrap", self.bootstrap, "--security-protocol", "SASL_SSL", "--tls-ca", str(self.ca),
            "--sasl-user", user, "--sasl-password-file", file,
        ]  # fmt: skip
        command = [sys.executable, "-m", "dafka", *arguments, *secured]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
        return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("secured")
    certificate, key = self_signed(folder)
    for user, password in PASSWORDS.items():
        (folder / f"{user}.password").write_text(password)
    made = ["init", "--data", "data", "--admin", "admin", "--password-file", "admin.password"]
    subprocess.run([sys.executable, "-m", "dafka", *made], cwd=folder, check=True, timeout=SECONDS)
    arguments = ["--tls-certificate", str(certificate), "--tls-key", str(key)]
    arguments += ["--group-initial-rebalance-delay-ms", "0"]
    with Standalone(folder / "data", *arguments, directory=folder, protocol="SASL_SSL") as standalone:
        secured = Secured(standalone, certificate, folder)
        created = secured.dafka(
            "users", "create", "alice", "--password-file", str(folder / "alice.password"), user="admin"
        )
        assert created == (0, "created alice\n", "")
        yield secured


def librdkafka(server: Secured, mechanism: str, user: str = "alice", password: str = "") -> dict[str, Any]:
    return {
        "bootstrap.servers": server.bootstrap,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(server.ca),
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": PASSWORDS[password or user],
    }


def kafka_python(server: Secured, mechanism: str, user: str = "alice") -> dict[str, Any]:
    return {
        "bootstrap_servers": server.bootstrap,
        "security_protocol": "SASL_SSL",
        "ssl_cafile": str(server.ca),
        "sasl_mechanism": mechanism,
        "sasl_plain_username": user,
        "sasl_plain_password": PASSWORDS[user],
    }


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_what_one_client_writes_as_a_user_another_one_reads(server: Secured, mechanism: str) -> None:
    topic = f"orders-{mechanism}"
    assert server.dafka("topics", "create", topic)[0] == 0
    producer = Producer(librdkafka(server, mechanism))
    producer.produce(topic, b"of librdkafka")
    assert producer.flush(SECONDS) == 0
    python = KafkaProducer(**kafka_python(server, mechanism))
    python.send(topic, b"of kafka-python").get(timeout=SECONDS)
    python.close()
    expected = [b"of librdkafka", b"of kafka-python"]

    consumer = KafkaConsumer(
        topic, **kafka_python(server, mechanism), group_id=f"python-{mechanism}", auto_offset_reset="earliest"
    )
    assert [next(consumer).value for _ in expected] == expected
    consumer.close()
    settings = {"group.id": f"librdkafka-{mechanism}", "auto.offset.reset": "earliest"}
    reader = Consumer({**librdkafka(server, mechanism), **settings})
    reader.subscribe([topic])
    records = [record for record in (reader.consume(2, SECONDS)) if record.error() is None]
    assert [record.value() for record in records] == expected
    reader.close()
    shown = server.dafka("consume", topic, "--sasl-mechanism", mechanism)
    assert shown == (0, "of librdkafka\nof kafka-python\n", "")


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(("user", "password"), [("alice", "wrong"), ("nobody", "alice")])
def test_who_has_another_password_stays_out(
    server: Secured, mechanism: str, user: str, password: str
) -> None:
    code, out, said = server.dafka(
        "topics", "list", "--sasl-mechanism", mechanism, user=user, password=password
    )
    assert (code, out) == (2, "")
    assert "it does not let this user in (Authentication failed" in said
    assert PASSWORDS[password] not in said
    failed: list[Any] = []
    settings = librdkafka(server, mechanism, user, password)
    producer = Producer({**settings, "error_cb": failed.append, "log_level": 0})
    producer.produce("orders", b"never")

    def is_refused() -> bool:
        producer.poll(0.1)
        return "_AUTHENTICATION" in [error.name() for error in failed]

    await_that(is_refused)
    producer.purge()
    assert producer.flush(SECONDS) == 0


def plainly(server: Secured, *arguments: str) -> str:
    command = [sys.executable, "-m", "dafka", "topics", "list", "--bootstrap", server.bootstrap, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    return done.stderr


def test_who_does_not_speak_as_the_listener_is_told_what_to_give(server: Secured, tmp_path: Path) -> None:
    assert "perhaps it wants TLS, or to know who comes (--security-protocol)" in plainly(server)
    other, _ = self_signed(tmp_path, "other")
    said = plainly(server, "--security-protocol", "SSL", "--tls-ca", str(other))
    assert "no encrypted connection comes about (self-signed certificate)" in said
    assert "no encrypted connection comes about" in plainly(server, "--security-protocol", "SSL")
    said = plainly(server, "--security-protocol", "SSL", "--tls-ca", str(server.ca))
    assert "it closed the connection" in said


def test_users_are_told_and_deleted_by_administrators(server: Secured) -> None:
    code, out, _ = server.dafka("users", "list", user="admin")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[1:]] == ["admin", "admin", "alice", "alice"]
    file = str(server.folder / "alice.password")
    assert server.dafka("users", "create", "bob", "--password-file", file, user="admin")[0] == 0
    assert server.dafka("topics", "list", user="bob", password="alice")[0] == 0
    assert server.dafka("users", "delete", "bob", user="admin")[:2] == (0, "deleted bob\n")
    assert server.dafka("topics", "list", user="bob", password="alice")[0] == 2


def test_nobody_makes_a_user_behind_the_back_of_a_server(server: Secured) -> None:
    made = ["init", "--data", "data", "--admin", "mallory", "--password-file", "wrong.password"]
    command = [sys.executable, "-m", "dafka", *made]
    done = subprocess.run(
        command, cwd=server.folder, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 3
    assert "is using it" in done.stderr


def test_no_secret_is_in_the_log(server: Secured) -> None:
    assert server.dafka("topics", "list", password="wrong")[0] == 2
    said = server.server.log + server.server.stdout
    assert "authentication failed: wrong user or password" in said
    assert [password for password in PASSWORDS.values() if password in said] == []
