"""What a server is told in confidence is nowhere in what it shows: a whole run, with secrets to look for."""

from __future__ import annotations

import json
import signal
import socket
import struct
import subprocess
import sys
import time
import urllib.request
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography.hazmat.primitives.asymmetric import ec
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from gateway.security.scram import Hash
from tests.differential.wire import Connection
from tests.peers.certificates import self_signed
from tests.peers.ports import free_ports
from tests.peers.standalone import READY, Standalone
from tests.unit.gateway.api.test_delegation_tokens import CREATE, DESCRIBE, EXPIRE, RENEW
from tests.unit.gateway.api.test_delegation_tokens import request as about_tokens
from tests.unit.gateway.security.test_scram import Client as ScramMessages
from tests.unit.gateway.security.test_web_tokens import EC, public, signed

PATIENCE_SECONDS = 30.0
WRONG_SECONDS = 3.0
"""How long a client tries that cannot succeed."""

USER = "planted-user"
SECRETS = {
    "the password of a user": "planted-password-5f1c",
    "a wrong password": "planted-wrong-password-77aa",
    "a password in a token that is none": "planted-malformed-password-90be",
    "a password as a name": "planted-password-as-name-3d21",
    "a password in a frame that is no request": "planted-frame-password-c0de",
    "the token of the page": "planted-page-token-1b6f2c",
    "the token of metrics": "planted-metrics-token-44d0e9",
    "a wrong token": "planted-wrong-token-8e3a51",
    "a token in an address": "planted-address-token-a9c4",
    "a token that is too short": "planted-short",
    "a key that is none": "planted-key-that-is-none-61f7",
    "what delegation tokens are made with": "planted-secret-of-the-gateways-0a5d-of-forty-bytes",
    "a wrong password of a delegation token": "planted-wrong-hmac-b2e8",
    "the claims of a token": "planted-claim-of-a-web-token-93c1",
    "a token that is none": "planted-web-token-that-is-none-28aa",
}


def forms(secret: str) -> set[bytes]:
    """As what a secret may be written."""
    raw = secret.encode()
    # In base64 it reads in three ways, by what is before it; the ends depend on what is beside it.
    shifted = {b64encode(b"\0" * shift + raw)[4 if shift else 0 : -4] for shift in range(3)}
    return {raw, raw.hex().encode(), quote(secret).encode(), *shifted}


def shown_in(secret: str, texts: Mapping[str, bytes]) -> list[str]:
    """Where it is."""
    return [name for name, text in texts.items() if any(form in text for form in forms(secret))]


class Run:
    """A server that is told all of it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.certificate, self.key = self_signed(directory)
        self.tokens = {
            name: self._token(name, SECRETS[f"the token of {secret}"])
            for name, secret in (("http", "the page"), ("metrics", "metrics"))
        }
        self.server = Standalone(
            None,
            *("--listen", "SASL_SSL://127.0.0.1:0", "--listen", "SASL_PLAINTEXT://127.0.0.1:0"),
            *("--tls-certificate", str(self.certificate), "--tls-key", str(self.key)),
            *("--http", "127.0.0.1:0", "--http-token-file", str(self.tokens["http"]), "--http-data"),
            *(
                "--metrics",
                f"127.0.0.1:{free_ports(1)[0]}",
                "--metrics-token-file",
                str(self.tokens["metrics"]),
            ),
            *("--topics", "orders:1", "--authorizer", "acl", "--super-user", "User:ANONYMOUS"),
            *("--log-level", "debug", "--audit", str(directory / "audit")),
            *(
                "--delegation-token-secret-file",
                str(self._file("secret", "what delegation tokens are made with")),
            ),
            *("--oauth-keys", str(self._key_set())),
            directory=directory / "server",
            environment={"PYTHONFAULTHANDLER": "1"},
        )

    def _token(self, name: str, token: str) -> Path:
        path = self.directory / f"{name}-token"
        path.write_text(token)
        path.chmod(0o600)
        return path

    def _file(self, name: str, secret: str) -> Path:
        return self._token(name, SECRETS[secret])

    def _key_set(self) -> Path:
        path = self.directory / "keys.json"
        path.write_text(json.dumps({"keys": [public(EC, kid="ec")]}))
        return path

    @property
    def addresses(self) -> list[str]:
        """Where it serves Kafka: PLAINTEXT, SASL_SSL, SASL_PLAINTEXT."""
        return [f"{host}:{port}" for host, port in READY.findall(self.server.stdout)]

    @property
    def page(self) -> str:
        return self.server.log.partition("the status page is at ")[2].partition("/\n")[0]

    @property
    def metrics(self) -> str:
        return f"http://{self.server.arguments[self.server.arguments.index('--metrics') + 1]}"

    def wait_for(self, text: str) -> None:
        """Until the log has it."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while text not in self.server.log:
            assert time.monotonic() < deadline, f"the log has no {text!r}: {self.server.tail()}"
            time.sleep(0.02)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    made = Run(tmp_path_factory.mktemp("secrets"))
    with made.server:
        yield made


def get(url: str, token: str = "") -> tuple[int, bytes]:
    """The status and body of a page."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=10) as answer:
            return answer.status, answer.read()
    except HTTPError as error:
        return error.code, error.read()


def make_user(run: Run) -> None:
    admin = AdminClient({"bootstrap.servers": run.addresses[0]})
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    password = SECRETS["the password of a user"].encode()
    change = UserScramCredentialUpsertion(USER, info, password)
    for future in admin.alter_user_scram_credentials([change]).values():
        future.result(PATIENCE_SECONDS)


def log_in(run: Run, mechanism: str, password: str, seconds: float, user: str = USER) -> bool:
    """Whether a real client gets in."""
    config = {
        "bootstrap.servers": run.addresses[1],
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(run.certificate),
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
        "error_cb": lambda _error: None,
        "logger": _Silent(),
    }
    try:
        Producer(config).list_topics(timeout=seconds)
    except KafkaException:
        return False
    return True


class _Silent:
    """librdkafka's log is none of the server's."""

    def log(self, *_what: Any) -> None:
        pass


def frame(key: int, version: int, body: bytes) -> bytes:
    head = struct.pack(">hhih", key, version, 1, 1) + b"t"
    return struct.pack(">i", len(head + body)) + head + body


def send_raw(run: Run, *frames: bytes) -> None:
    """On the listener with SASL and without TLS; until the server hangs up."""
    host, port = run.addresses[2].split(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE_SECONDS) as one:
        one.sendall(b"".join(frames))
        one.shutdown(socket.SHUT_WR)
        try:
            while one.recv(1 << 16):
                pass
        except ConnectionResetError:
            pass


def show_passwords_wrongly(run: Run) -> None:
    plain = struct.pack(">h", 5) + b"PLAIN"
    malformed = b"u\0u\0" + SECRETS["a password in a token that is none"].encode() + b"\0more"
    send_raw(run, frame(17, 1, plain), frame(36, 0, struct.pack(">i", len(malformed)) + malformed))
    named = b"\0" + SECRETS["a password as a name"].encode() + b"\0x"
    send_raw(run, frame(17, 1, plain), frame(36, 0, struct.pack(">i", len(named)) + named))
    scram = struct.pack(">h", 13) + b"SCRAM-SHA-256"
    send_raw(run, frame(17, 0, scram), struct.pack(">i", len(malformed)) + malformed)
    nonsense = SECRETS["a password in a frame that is no request"].encode()
    send_raw(run, struct.pack(">i", len(nonsense)) + nonsense)
    send_raw(run, frame(17, 1, struct.pack(">h", len(nonsense)) + nonsense))


def come_in(run: Run, mechanism: str, *tokens: bytes | Callable[[bytes], bytes]) -> tuple[Connection, Any]:
    """A connection, and what was answered last; each token may be made of the answer before."""
    one = Connection(run.addresses[2])
    assert one.ask(SaslHandshakeRequest(version=1, mechanism=mechanism)).error_code == 0
    told: Any = None
    for token in tokens:
        made = token if isinstance(token, bytes) else token(told.auth_bytes)
        told = one.ask(SaslAuthenticateRequest(version=1, auth_bytes=made))
    return one, told


def use_delegation_tokens(run: Run) -> dict[str, str]:
    """One is made, shown, come in by, renewed and ended. What of it is secret, by what it is."""
    password = SECRETS["the password of a user"]
    one, told = come_in(run, "PLAIN", f"\0{USER}\0{password}".encode())
    assert told.error_code == 0
    with one:
        made = one.ask(about_tokens(CREATE, 2))
        assert made.error_code == 0
        (shown,) = one.ask(about_tokens(DESCRIBE, 2)).tokens
        assert shown.hmac == made.hmac
        hmac = b64encode(made.hmac).decode()
        for secret, is_right in ((hmac, True), (SECRETS["a wrong password of a delegation token"], False)):
            client = ScramMessages(Hash.SHA_512, made.token_id, secret, ",tokenauth=true")
            another, told = come_in(run, "SCRAM-SHA-512", client.first(), client.last)
            another.close()
            assert (told.error_code == 0) == is_right
        for key, period in ((RENEW, "renew_period_ms"), (EXPIRE, "expiry_time_period_ms")):
            assert one.ask(about_tokens(key, 2, hmac=made.hmac, **{period: -1})).error_code == 0
    return {"a token's HMAC": hmac, "the same in hexadecimal": made.hmac.hex()}


def use_web_tokens(run: Run) -> dict[str, str]:
    """A good one, one that another key has signed, and what is none. What of them is secret."""
    claim = SECRETS["the claims of a token"]
    good = signed(EC, "ES256", "ec", sub="carol", note=claim)
    forged = signed(ec.generate_private_key(ec.SECP256R1()), "ES256", "ec", sub="mallory", note=claim)
    tokens = {"a web token": good, "a forged one": forged, "none": SECRETS["a token that is none"]}
    for what, token in tokens.items():
        one, told = come_in(run, "OAUTHBEARER", f"n,,\x01auth=Bearer {token}\x01\x01".encode())
        one.close()
        assert (told.error_code, told.auth_bytes == b"") == (0, what == "a web token")
    return {
        f"{what}, part {number}": part
        for what, token in tokens.items()
        for number, part in enumerate(token.split(".")[1:] or [token])
    }


def exported(run: Run) -> bytes:
    """The catalog, as an operator keeps it."""
    path = run.directory / "catalog.jsonl"
    data = str(run.server.data / "gateway")
    command = [sys.executable, "-m", "dafka", "catalog", "export", "--data", data, str(path)]
    subprocess.run(command, check=True, capture_output=True)
    return path.read_bytes()


def change_files(run: Run) -> None:
    """To some that are refused, and back."""
    for path, secret, told in (
        (run.tokens["http"], "a token that is too short", "the token is not read again"),
        (run.key, "a key that is none", "the certificates are not read again"),
    ):
        before = path.read_text()
        path.write_text(SECRETS[secret])
        get(f"{run.page}/", SECRETS["the token of the page"])
        run.server.send_signal(signal.SIGHUP)
        run.wait_for(told)
        path.write_text(before)
        get(f"{run.page}/", SECRETS["the token of the page"])
    run.server.send_signal(signal.SIGHUP)
    run.wait_for("the certificates were read again")


def pages(run: Run) -> dict[str, bytes]:
    """All that is shown over HTTP."""
    token = SECRETS["the token of the page"]
    status, text = get(f"{run.page}/api/v1/openapi.json", token)
    assert status == 200
    places = {"{topic}": "orders", "{partition}": "0", "{group}": "g", "{offset}": "0"}
    shown = {"metrics": get(f"{run.metrics}/metrics", SECRETS["the token of metrics"])[1]}
    for path, methods in json.loads(text)["paths"].items():
        filled = path
        for place, value in places.items():
            filled = filled.replace(place, value)
        if "get" in methods and "events" not in path:
            shown[filled] = get(f"{run.page}/api/v1{filled}", token)[1]
    assert b"dafka_ready 1" in shown["metrics"]
    return shown


def test_nothing_that_is_secret_is_shown(run: Run) -> None:
    make_user(run)
    show_passwords_wrongly(run)  # first: clients try again and again, and the log leaves lines out then
    right, wrong = SECRETS["the password of a user"], SECRETS["a wrong password"]
    for mechanism in ("SCRAM-SHA-256", "PLAIN"):
        assert log_in(run, mechanism, right, PATIENCE_SECONDS)
        assert not log_in(run, mechanism, wrong, WRONG_SECONDS)
        assert not log_in(run, mechanism, wrong, WRONG_SECONDS, "nobody")
    for url in (f"{run.page}/api/v1/overview", f"{run.metrics}/metrics"):
        assert get(url, SECRETS["a wrong token"])[0] == 401
        assert get(f"{url}?token={SECRETS['a token in an address']}")[0] == 401
    at_run_time = use_delegation_tokens(run) | use_web_tokens(run)
    change_files(run)
    process = Path(f"/proc/{run.server.pid}")
    texts = {
        "the log": run.server.log.encode(),
        "standard output": run.server.stdout.encode(),
        "the command line": (process / "cmdline").read_bytes(),
        "the environment": (process / "environ").read_bytes(),
        "the audit": (run.directory / "audit").read_bytes(),
        "the catalog": exported(run),
        **pages(run),
        **{str(path): path.read_bytes() for path in run.server.data.rglob("*") if path.is_file()},
    }
    run.server.send_signal(signal.SIGABRT)
    run.server.wait()
    texts["how it crashed"] = run.server.log.removeprefix(texts["the log"].decode()).encode()
    assert b"Fatal Python error: Aborted" in texts["how it crashed"]
    key = [line for line in run.key.read_text().splitlines() if not line.startswith("-")]
    lines = {f"line {n} of the key": line for n, line in enumerate(key)}
    for what, secret in {**SECRETS, **at_run_time, **lines}.items():
        assert shown_in(secret, texts) == [], what
    # What is looked through is what it is for.
    for said in ("wrong user or password", "its token has 4 parts", "malformed", "no mechanism's name"):
        assert said in run.server.log
    assert "shows a wrong token" in run.server.log
    assert shown_in("--http-token-file", texts) == ["the command line"]
    assert {"the audit", "the catalog"} <= set(shown_in(USER, texts))
    assert "RenewDelegationToken" in texts["the audit"].decode()
    assert {"metrics", "/topics"} <= set(shown_in("orders", texts))


def _as_in_basic(text: str) -> bytes:
    return b64encode(f"u:{text}".encode())


def _in_hexadecimal(text: str) -> bytes:
    return text.encode().hex().encode()


@pytest.mark.parametrize("write", [str.encode, _as_in_basic, _in_hexadecimal])
def test_a_secret_that_is_shown_is_found(write: Callable[[str], bytes]) -> None:
    for secret in SECRETS.values():
        assert shown_in(secret, {"a": b"x", "b": b"--" + write(secret) + b"--"}) == ["b"]
