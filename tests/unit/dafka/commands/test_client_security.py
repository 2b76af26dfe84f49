"""How commands come in where it is asked who they are: options, Kafka's files, and what is refused."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dafka.cli import dafka
from dafka.commands.client_properties import MAX_BYTES, properties_in
from dafka.commands.client_security import IN_THE_CLEAR, Bootstrap, ClientSecurity, client_security
from dafka.commands.configuration import OF_CLIENTS, check_environment
from dafka.commands.decorators import SECURITY_OPTIONS
from dafka.commands.exits import CommandFailed
from dafka.commands.options import variable_of
from dafka.commands.passwords import MAX_PASSWORD_CHARACTERS, new_password, read_password
from tests.peers.certificates import self_signed

JAVA = """
# As Java's clients have it.
bootstrap.servers=kafka.example:9093
security.protocol=SASL_SSL
sasl.mechanism = SCRAM-SHA-256
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\
    username="alice" \\
    password="it's \\"secret\\" = 1;";
ssl.truststore.type=PEM
ssl.truststore.location=/etc/ca.pem
ssl.keystore.type: PEM
ssl.keystore.location: /etc/alice.pem
"""
CA, CERTIFICATE = Path("/etc/ca.pem"), Path("/etc/alice.pem")
LIBRDKAFKA = """
security.protocol=sasl_ssl
sasl.mechanisms=PLAIN
sasl.username=alice
sasl.password=pass=word # and more
ssl.ca.location=/etc/ca.pem
ssl.certificate.location=/etc/alice.pem
ssl.key.location=/etc/alice-key.pem
! nothing else
"""


def a_file(folder: Path, text: str, name: str = "client.properties") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_a_file_of_javas_clients(tmp_path: Path) -> None:
    assert client_security({"client_config": a_file(tmp_path, JAVA)}) == ClientSecurity(
        "SASL_SSL", "SCRAM-SHA-256", "alice", 'it\'s "secret" = 1;', CA, CERTIFICATE
    )


def test_a_file_of_librdkafkas_clients(tmp_path: Path) -> None:
    assert client_security({"client_config": a_file(tmp_path, LIBRDKAFKA)}) == ClientSecurity(
        "SASL_SSL",
        "PLAIN",
        "alice",
        "pass=word # and more",
        CA,
        CERTIFICATE,
        Path("/etc/alice-key.pem"),
    )


def test_options_win_over_the_file(tmp_path: Path) -> None:
    given: dict[str, str | Path | None] = {
        "client_config": a_file(tmp_path, LIBRDKAFKA),
        "sasl_user": "bob",
        "sasl_mechanism": None,
        "sasl_password_file": a_file(tmp_path, "other\n", "password"),
    }
    found = client_security(given)
    assert (found.user, found.password, found.mechanism) == ("bob", "other", "PLAIN")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("security.protocol=TLS", "security.protocol 'TLS' is none of PLAINTEXT, SSL"),
        ("sasl.mechanism=GSSAPI", "sasl.mechanism 'GSSAPI' is none of PLAIN"),
        ("security.protocol=SASL_SSL", "SASL_SSL asks who comes: give --sasl-user"),
        ("sasl.username=a\nsasl.password=b", "the protocol is PLAINTEXT: add --security-protocol SASL_SSL"),
        ("ssl.ca.location=/etc/ca.pem", "certificates are for TLS"),
        ("ssl.truststore.location=/etc/ca.jks", "ssl.truststore.location is JKS, and only PEM is read here"),
        ("ssl.keystore.location=/a\nssl.keystore.type=PKCS12", "ssl.keystore.location is PKCS12"),
        ("#" * (MAX_BYTES + 1), "it is no client.properties"),
    ],
)
def test_what_a_file_says_wrongly(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(CommandFailed, match=why):
        client_security({"client_config": a_file(tmp_path, text)})


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(CommandFailed, match="it is no text"):
        properties_in(path)


def test_without_anything_nothing_is_secured() -> None:
    assert client_security(dict.fromkeys(SECURITY_OPTIONS)) == IN_THE_CLEAR
    assert str(Bootstrap("h:1")) == "h:1"


def test_a_password_is_shown_nowhere() -> None:
    assert "secret" not in repr(ClientSecurity(password="secret"))


def test_each_option_has_a_variable_that_is_known() -> None:
    assert tuple(SECURITY_OPTIONS) == OF_CLIENTS
    check_environment({variable_of(name): "x" for name in OF_CLIENTS})


def test_variables_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAFKA_SASL_USER", "alice")
    answered = CliRunner().invoke(dafka, ["topics", "list", "--bootstrap", "127.0.0.1:1"])
    assert "a user is for SASL, and the protocol is PLAINTEXT" in str(answered.exception)


def test_certificates_that_are_of_no_use(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    context = ClientSecurity("SSL", ca=certificate, certificate=certificate, key=key).tls()
    assert context.get_ca_certs()
    assert context.check_hostname
    bad = a_file(tmp_path, "nothing", "bad.pem")
    with pytest.raises(CommandFailed, match=r"bad\.pem: .*Give certificates in PEM by --tls-ca"):
        ClientSecurity("SSL", ca=bad).tls()
    with pytest.raises(CommandFailed, match="Give a certificate and its key"):
        ClientSecurity("SSL", ca=certificate, certificate=bad).tls()


@pytest.mark.parametrize("text", ["secret", "secret\n", "secret\r\n"])
def test_a_password_is_the_only_line(tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_password(a_file(tmp_path, text)) == "secret"
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    assert new_password("alice", Path("-")) == "secret"


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "has no password: it is empty"),
        (b"\n", "has no password: it is empty"),
        (b"a\nb\n", "what is needed is one line"),
        (b"a\0b", "what is needed is one line"),
        (b"x" * (MAX_PASSWORD_CHARACTERS + 1), "what is needed is one line of at most 1024"),
        (b"\xff", "it is no text in UTF-8"),
    ],
)
def test_what_is_no_password(tmp_path: Path, content: bytes, why: str) -> None:
    path = tmp_path / "password"
    path.write_bytes(content)
    with pytest.raises(CommandFailed, match=why):
        read_password(path)


def test_nobody_is_asked_where_nobody_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("secret"))
    with pytest.raises(CommandFailed, match="nobody can be asked for the password of alice here"):
        new_password("alice", None)


def test_who_is_there_is_asked_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []

    def prompt(_text: str, **how: Any) -> str:
        asked.append(how)
        return "secret"

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("sys.stdin", Terminal())
    monkeypatch.setattr("click.prompt", prompt)
    assert new_password("alice", None) == "secret"
    ((how),) = asked
    assert how["hide_input"]
    assert how["confirmation_prompt"]
