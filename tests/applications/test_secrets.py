"""What a server is told in confidence is nowhere in what it shows: a whole run, with secrets to look for."""

from __future__ import annotations

import json
import signal
import socket
import struct
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

from tests.peers.certificates import self_signed
from tests.peers.probe import free_ports
from tests.peers.standalone import READY, Standalone

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
            *("--log-level", "debug"),
            directory=directory / "server",
        )

    def _token(self, name: str, token: str) -> Path:
        path = self.directory / f"{name}-token"
        path.write_text(token)
        path.chmod(0o600)
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
    change_files(run)
    process = Path(f"/proc/{run.server.pid}")
    texts = {
        "the log": run.server.log.encode(),
        "standard output": run.server.stdout.encode(),
        "the command line": (process / "cmdline").read_bytes(),
        "the environment": (process / "environ").read_bytes(),
        **pages(run),
        **{str(path): path.read_bytes() for path in run.server.data.rglob("*") if path.is_file()},
    }
    key = [line for line in run.key.read_text().splitlines() if not line.startswith("-")]
    for what, secret in {**SECRETS, **{f"line {n} of the key": line for n, line in enumerate(key)}}.items():
        assert shown_in(secret, texts) == [], what
    # What is looked through is what it is for.
    for said in ("wrong user or password", "its token has 4 parts", "malformed", "no mechanism's name"):
        assert said in run.server.log
    assert "shows a wrong token" in run.server.log
    assert shown_in("--http-token-file", texts) == ["the command line"]
    assert {"metrics", "/topics"} <= set(shown_in("orders", texts))


def _as_in_basic(text: str) -> bytes:
    return b64encode(f"u:{text}".encode())


def _in_hexadecimal(text: str) -> bytes:
    return text.encode().hex().encode()


@pytest.mark.parametrize("write", [str.encode, _as_in_basic, _in_hexadecimal])
def test_a_secret_that_is_shown_is_found(write: Callable[[str], bytes]) -> None:
    for secret in SECRETS.values():
        assert shown_in(secret, {"a": b"x", "b": b"--" + write(secret) + b"--"}) == ["b"]
