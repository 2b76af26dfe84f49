"""Delegation tokens: Kafka's tool makes, lists, renews and ends them; a Java client comes in by one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka.admin
import pytest
from confluent_kafka.admin import AdminClient
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from gateway.security.scram import Hash
from tests.clients.stored import create_topic
from tests.differential.wire import Connection
from tests.peers.java import java_client, java_tool
from tests.peers.maven import KAFKA_VERSION, OLD_CLIENTS_VERSION
from tests.peers.standalone import Standalone
from tests.unit.gateway.security.test_scram import Client as ScramMessages
from wireproto.kafka.errors import ErrorCode
from wireproto.kafka.messages import CreateDelegationTokenRequest

SECONDS = 30.0
DAY_MS = 24 * 3600 * 1000
MAX_LIFE = ("--max-life-time-period", str(2 * DAY_MS))
TOOL = "org.apache.kafka.tools.DelegationTokenCommand"

# Its own hints leave out half of what it has.
library: Any = confluent_kafka.admin


class Server:
    """One where alice may do everything, bob nothing, and both have to say who they are."""

    def __init__(self, standalone: Standalone, folder: Path) -> None:
        self.open = standalone.bootstrap
        """Where nobody is asked."""
        found = re.search(r"told to use: (\S+) \(listener SASL_PLAINTEXT\)", standalone.stdout)
        assert found is not None, standalone.stdout
        self.closed = found[1]
        self._folder = folder

    def add(self, user: str) -> None:
        mechanism = library.ScramCredentialInfo(library.ScramMechanism.SCRAM_SHA_256, 4096)
        change = library.UserScramCredentialUpsertion(user, mechanism, f"secret of {user}".encode())
        admin = AdminClient({"bootstrap.servers": self.open})
        for done in admin.alter_user_scram_credentials([change]).values():
            done.result(SECONDS)

    def token_tool(self, user: str, *arguments: str) -> str:
        """What kafka-delegation-tokens prints when this user runs it."""
        properties = self._folder / f"{user}.properties"
        properties.write_text("\n".join(settings(user, f"secret of {user}")))
        asks = ("--bootstrap-server", self.closed, "--command-config", str(properties))
        done = java_tool(TOOL, *asks, *arguments)
        assert "Exception" not in done.stdout + done.stderr
        return done.stdout


def settings(name: str, password: str, mechanism: str = "SCRAM-SHA-256", more: str = "") -> list[str]:
    """Those of a Java client."""
    login = "org.apache.kafka.common.security.scram.ScramLoginModule"
    return [
        "security.protocol=SASL_PLAINTEXT",
        f"sasl.mechanism={mechanism}",
        f'sasl.jaas.config={login} required username="{name}" password="{password}"{more};',
    ]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    secret = tmp_path / "secret"
    secret.write_text("of the gateways, and of nobody else\n")
    secret.chmod(0o600)
    with Standalone(
        None,
        *("--listen", "SASL_PLAINTEXT://127.0.0.1:0", "--authorizer", "acl"),
        *("--super-user", "User:ANONYMOUS", "--super-user", "User:alice"),
        *("--delegation-token-secret-file", str(secret)),
    ) as standalone:
        made = Server(standalone, tmp_path)
        for user in ("alice", "bob"):
            made.add(user)
        yield made


def only_row(printed: str) -> list[str]:
    """The one token of the table that is printed: id, HMAC, owner, requester, renewers, three times."""
    (row,) = [line.split() for line in printed[printed.index("TOKENID") :].splitlines()[1:] if line.strip()]
    return row


def sent(server: Server, topic: str, *login: str, version: str = KAFKA_VERSION) -> str:
    """What becomes of a record that a Java producer with such a login sends: where it is, or the error."""
    quick = ["max.block.ms=20000", "delivery.timeout.ms=20000", "request.timeout.ms=10000", "linger.ms=0"]
    line = f"{topic}\t0\t1700000000000\t-\teA==\t\n"
    asks = [f"bootstrap.servers={server.closed}", *settings(*login), *quick]
    return java_client("Producer", *asks, stdin=line, version=version).stdout.strip()


def come_in(server: Server, token: str, hmac: str) -> Connection:
    """A connection that has come in by a token, and stays."""
    client = ScramMessages(Hash.SHA_256, token, hmac, ",tokenauth=true")
    made = Connection(server.closed)
    made.ask(SaslHandshakeRequest(version=1, mechanism="SCRAM-SHA-256"))
    challenge = made.ask(SaslAuthenticateRequest(version=2, auth_bytes=client.first())).auth_bytes
    told = made.ask(SaslAuthenticateRequest(version=2, auth_bytes=client.last(challenge)))
    assert (told.error_code, told.auth_bytes) == (0, client.verifier())
    assert 0 < told.session_lifetime_ms <= DAY_MS
    return made


def test_kafka_delegation_tokens(server: Server) -> None:
    """alice has a token made, which bob may renew; a producer with the clients of Spark has it, and writes as
    alice. Gone is gone.
    """
    topic = create_topic(server.open, "orders", 1)
    made = only_row(server.token_tool("alice", "--create", *MAX_LIFE, "--renewer-principal", "User:bob"))
    token, hmac, *who = made[:5]
    assert who == ["User:alice", "User:alice", "[User:bob]"]
    is_token = (token, hmac, "SCRAM-SHA-512", " tokenauth=true")
    assert sent(server, topic, *is_token, version=OLD_CLIENTS_VERSION) == "0\t0\t1700000000000"
    described = server.token_tool("bob", "--describe", "--owner-principal", "User:alice")
    assert only_row(described) == made
    renewed = server.token_tool("bob", "--renew", "--renew-time-period", "-1", "--hmac", hmac)
    assert "Completed renew operation. New expiry date" in renewed
    with come_in(server, token, hmac) as stays:
        asked = stays.ask(CreateDelegationTokenRequest(version=3, renewers=[], max_lifetime_ms=-1))
        assert asked.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        expired = server.token_tool("bob", "--expire", "--expiry-time-period", "-1", "--hmac", hmac)
        assert "Completed expire operation." in expired
        assert stays.receive() is None, "it is cut off"
    assert "SaslAuthenticationException" in sent(server, topic, *is_token)
