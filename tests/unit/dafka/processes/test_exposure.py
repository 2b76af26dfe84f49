"""Who starts a listener that anybody may use is told; who does not is not."""

from __future__ import annotations

import pytest

from dafka.processes.exposure import warn_of_open_listeners
from gateway.front.listeners import parse_listener


@pytest.mark.parametrize(
    ("listener", "has_acls", "asks_certificates", "told"),
    [
        ("0.0.0.0:9092", False, False, True),
        ("[::]:9092", False, False, True),
        ("192.0.2.1:9092", False, False, True),
        ("kafka.example:9092", False, True, True),
        ("SSL://0.0.0.0:9092", False, False, True),
        ("SSL://0.0.0.0:9092", False, True, False),
        ("SASL_PLAINTEXT://0.0.0.0:9092", False, False, False),
        ("SASL_SSL://0.0.0.0:9092", False, False, False),
        ("0.0.0.0:9092", True, False, False),
        ("127.0.0.1:9092", False, False, False),
        ("127.0.0.2:9092", False, False, False),
        ("[::1]:9092", False, False, False),
        ("localhost:9092", False, False, False),
    ],
)
def test_of_listeners_that_anybody_may_use_it_is_told(
    listener: str, has_acls: bool, asks_certificates: bool, told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    spec = parse_listener(listener)
    warn_of_open_listeners([spec], has_acls=has_acls, asks_certificates=asks_certificates)
    assert [f"--listen {spec} asks nobody" in line for line in caplog.messages] == [True] * told


def test_each_listener_is_looked_at(caplog: pytest.LogCaptureFixture) -> None:
    listeners = [parse_listener(text) for text in ("127.0.0.1:9092", "OUT=0.0.0.0:9093", "IN=[::]:9094")]
    warn_of_open_listeners(listeners, has_acls=False, asks_certificates=False)
    assert [line.split()[1] for line in caplog.messages] == ["OUT=0.0.0.0:9093", "IN=[::]:9094"]
