"""What is said once Kafka clients are served."""

import socket
from collections.abc import Iterator

import pytest

from dafka.processes.ready import say_ready
from gateway.front.listener_sockets import ListenerSocket
from gateway.front.listeners import Listener
from gateway.security.protocol import SecurityProtocol


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def told(capsys: pytest.CaptureFixture[str]) -> list[str]:
    start = "  clients are told to use: "
    return [
        line.removeprefix(start) for line in capsys.readouterr().out.splitlines() if line.startswith(start)
    ]


def test_what_clients_are_told_of_each_listener(
    listening: socket.socket, capsys: pytest.CaptureFixture[str]
) -> None:
    say_ready(
        [
            ListenerSocket(listening, Listener("PLAINTEXT", "127.0.0.1", 9092)),
            ListenerSocket(listening, Listener("OUTSIDE", "0.0.0.0", 9094, "kafka.example", 19094)),
            ListenerSocket(listening, Listener("INSIDE", "0.0.0.0", 9093, "2001:db8::7")),
        ]
    )
    assert told(capsys) == [
        "127.0.0.1:9092",
        "kafka.example:19094 (listener OUTSIDE)",
        "[2001:db8::7]:9093 (listener INSIDE)",
    ]


def test_a_listener_on_several_addresses_tells_one_thing_once(
    listening: socket.socket, capsys: pytest.CaptureFixture[str]
) -> None:
    listener = Listener("PLAINTEXT", "localhost", 9092)
    say_ready([ListenerSocket(listening, listener), ListenerSocket(listening, listener)])
    assert told(capsys) == ["localhost:9092"]


@pytest.mark.parametrize("protocol", list(SecurityProtocol))
def test_it_is_said_what_clients_have_to_speak(
    protocol: SecurityProtocol, listening: socket.socket, capsys: pytest.CaptureFixture[str]
) -> None:
    say_ready([ListenerSocket(listening, Listener("X", "localhost", 9092, protocol=protocol))])
    said = f"security.protocol={protocol.value}: see docs/security.md" in capsys.readouterr().out
    assert said is (protocol is not SecurityProtocol.PLAINTEXT)


def test_nobody_is_told_a_wildcard(listening: socket.socket, capsys: pytest.CaptureFixture[str]) -> None:
    say_ready([ListenerSocket(listening, Listener("PLAINTEXT", "::", 9092))])
    (line,) = told(capsys)
    assert line.startswith("the address that they reached, port 9092 ")
    assert "--listen" in line
