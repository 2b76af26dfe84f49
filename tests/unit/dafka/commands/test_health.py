"""`dafka health`: what a container runtime runs inside the container."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dafka import cli
from dafka.commands.health import EXIT_UNHEALTHY
from tests.peers.certificates import self_signed

READY = b'HTTP/1.1 200 OK\r\nContent-Length: 30\r\n\r\n{"live": true, "ready": true}\n'
STARTING = b'HTTP/1.1 503 Service Unavailable\r\n\r\n{"ready": false, "because": "starting"}\n'


@contextmanager
def answering(
    answer: bytes, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
) -> Iterator[tuple[str, list[bytes]]]:
    """A server that gives one answer to one request: its address, and what it was asked. With an empty
    answer it keeps the connection and says nothing.
    """
    asked: list[bytes] = []
    done = threading.Event()
    with socket.create_server((host, 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            if tls is not None:
                connection = tls.wrap_socket(connection, server_side=True)
            with connection:
                asked.append(connection.recv(4096))
                connection.sendall(answer)
                if not answer:
                    done.wait(30.0)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield f"{host}:{server.getsockname()[1]}", asked
        finally:
            done.set()
            thread.join(30.0)


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DAFKA_METRICS", raising=False)
    monkeypatch.delenv("DAFKA_METRICS_TLS", raising=False)


def test_a_ready_process(capsys: pytest.CaptureFixture[str]) -> None:
    with answering(READY) as (address, asked):
        assert cli.run(["health", "--metrics", address]) == 0
    assert capsys.readouterr().out == '{"live": true, "ready": true}\n'
    assert asked[0].startswith(b"GET /health/ready HTTP/1.1\r\nHost: " + address.encode())


def test_live_asks_for_less() -> None:
    with answering(READY) as (address, asked):
        assert cli.run(["health", "--metrics", address, "--live"]) == 0
    assert asked[0].startswith(b"GET /health/live ")


def test_one_that_is_not_ready_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    with answering(STARTING) as (address, _):
        assert cli.run(["health", "--metrics", address]) == EXIT_UNHEALTHY
    assert '"because": "starting"' in capsys.readouterr().err


def test_where_is_what_the_process_itself_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who listens on all addresses is asked on the loopback one."""
    with answering(READY) as (address, _):
        monkeypatch.setenv("DAFKA_METRICS", f"0.0.0.0:{address.rpartition(':')[2]}")
        assert cli.run(["health"]) == 0


def test_nothing_answers(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    assert cli.run(["health", "--metrics", address]) == EXIT_UNHEALTHY
    assert capsys.readouterr().err.startswith(f"dafka: health: {address}: ")


def test_no_answer_in_time(capsys: pytest.CaptureFixture[str]) -> None:
    with answering(b"") as (address, _):
        assert cli.run(["health", "--metrics", address, "--timeout-seconds", "1"]) == EXIT_UNHEALTHY
    assert capsys.readouterr().err == f"dafka: health: {address}: no answer in time\n"


def test_something_else_answers(capsys: pytest.CaptureFixture[str]) -> None:
    with answering(b"SSH-2.0-OpenSSH_9.2\r\n") as (address, _):
        assert cli.run(["health", "--metrics", address]) == EXIT_UNHEALTHY
    assert "not a process of Dafka's" in capsys.readouterr().err


def test_what_is_no_address_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli.run(["health", "--metrics", "9404"]) == 2
    assert "--metrics: listener '9404'" in capsys.readouterr().err
    monkeypatch.setenv("DAFKA_METRICS", "here")
    assert cli.run(["health"]) == 2
    assert "DAFKA_METRICS: listener 'here'" in capsys.readouterr().err


def test_a_process_that_serves_over_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever its certificate is for: it is asked at an address."""
    certificate, key = self_signed(tmp_path, subject="/CN=kafka.example")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with answering(READY, tls=context) as (address, asked):
        assert cli.run(["health", "--metrics", address, "--tls"]) == 0
    assert asked[0].startswith(b"GET /health/ready ")
    monkeypatch.setenv("DAFKA_METRICS_TLS", "true")
    with answering(READY, tls=context) as (address, _):
        assert cli.run(["health", "--metrics", address]) == 0


def test_one_that_speaks_no_tls_is_told_so(capsys: pytest.CaptureFixture[str]) -> None:
    with answering(READY) as (address, _):
        assert cli.run(["health", "--metrics", address, "--tls"]) == EXIT_UNHEALTHY
    assert capsys.readouterr().err.startswith(f"dafka: health: {address}: ")


def test_a_switch_in_the_environment_that_is_none_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DAFKA_METRICS_TLS", "perhaps")
    assert cli.run(["health", "--metrics", "127.0.0.1:1"]) == 2
    assert "DAFKA_METRICS_TLS" in capsys.readouterr().err
