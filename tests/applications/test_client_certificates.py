"""Real clients that say who they are by a certificate, and what a server says that cannot ask them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from dafka import cli
from tests.peers.certificates import self_signed, signed
from tests.peers.standalone import READY, Standalone

PATIENCE_SECONDS = 30.0
SHORT_SECONDS = 3.0
"""How long a client tries that cannot succeed."""


class Scene:
    """A server that asks for certificates, and the files of its clients."""

    def __init__(self, directory: Path) -> None:
        self.certificate, key = self_signed(directory)
        authority = self_signed(directory, "authority", "/CN=authority")
        self.pairs = {
            name: signed(directory, authority, name, f"/O=Acme/OU={unit}/CN={name}")
            for name, unit in (("alice", "Ops"), ("bob", "Ops"), ("carol", "Sales"))
        }
        self.server = Standalone(
            None,
            *("--listen", "SSL://127.0.0.1:0", "--tls-certificate", str(self.certificate)),
            *("--tls-key", str(key), "--tls-client-ca", str(authority[0]), "--tls-client-auth", "required"),
            *("--tls-principal-rules", r"RULE:^CN=(.*?),OU=Ops,O=Acme$/$1/U"),
            *("--authorizer", "acl", "--super-user", "User:ALICE", "--super-user", "User:ANONYMOUS"),
            *("--topics", "orders:1"),
            directory=directory / "server",
        )

    def config(self, name: str | None) -> dict[str, Any]:
        """What a client has that shows the certificate of this name."""
        host, port = READY.findall(self.server.stdout)[1]
        shown = {}
        if name is not None:
            certificate, key = self.pairs[name]
            shown = {"ssl.certificate.location": str(certificate), "ssl.key.location": str(key)}
        return {
            "bootstrap.servers": f"{host}:{port}",
            "security.protocol": "SSL",
            "ssl.ca.location": str(self.certificate),
            # The server's log leaves lines out where there are very many.
            "reconnect.backoff.ms": 1000,
            "error_cb": lambda _error: None,
            **shown,
        }


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    made = Scene(tmp_path_factory.mktemp("certificates"))
    with made.server:
        Producer({"bootstrap.servers": made.server.bootstrap}).list_topics("orders", PATIENCE_SECONDS)
        yield made


def end_of(scene: Scene, name: str | None, seconds: float) -> int:
    """Where the topic ends, as that client is told. Raises KafkaException."""
    consumer = Consumer({**scene.config(name), "group.id": "g"})
    try:
        consumer.assign([TopicPartition("orders", 0)])
        _, high = consumer.get_watermark_offsets(TopicPartition("orders", 0), timeout=seconds, cached=False)
        return int(high)
    finally:
        consumer.close()


def test_the_name_in_a_certificate_is_what_somebody_may_act_by(scene: Scene) -> None:
    assert end_of(scene, "alice", PATIENCE_SECONDS) == 0
    found = Producer(scene.config("bob")).list_topics("orders", PATIENCE_SECONDS).topics["orders"]
    assert found.error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("carol", "no rule of --tls-principal-rules matches the subject of its certificate: "),
        (None, "the TLS handshake failed: PEER_DID_NOT_RETURN_A_CERTIFICATE"),
    ],
)
def test_who_is_nobody_is_not_served(scene: Scene, name: str | None, said: str) -> None:
    with pytest.raises(KafkaException):
        end_of(scene, name, SHORT_SECONDS)
    assert said in scene.server.log


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--listen", "SSL://127.0.0.1:0"], "listener SSL://127.0.0.1:0 needs a certificate"),
        (["--http", "127.0.0.1:0", "--http-tls"], "--http-tls needs a certificate"),
        (["--metrics", "127.0.0.1:0", "--metrics-tls"], "--metrics-tls needs a certificate"),
        (["--tls-certificate", "{directory}/server.pem"], "server.pem: nothing is served over TLS"),
        (["--tls-principal-rules", "RULE:(/x/"], "--tls-principal-rules: the expression '('"),
        (["--http", "127.0.0.1:0", "--http-token-file", "{directory}/none"], "none: No such file"),
        (["--http", "127.0.0.1:0", "--authorizer", "acl"], "--http shows records to whoever reaches it"),
        (["--http-token-file", "x"], "--http-token-file is for --http, which is not given"),
    ],
)
@pytest.mark.parametrize("several", [[], ["--gateways", "1"]], ids=["one process", "several"])
def test_what_cannot_be_served_is_said_before_anything_is(
    tmp_path: Path, options: list[str], said: str, several: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    given = [option.format(directory=tmp_path) for option in options]
    assert cli.run(["standalone", "--data", str(tmp_path / "data"), *several, *given]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "data" / "catalog" / "catalog.sqlite").exists()
