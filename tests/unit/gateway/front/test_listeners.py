"""What `--listen` means, and which address clients are told."""

from __future__ import annotations

import pytest

from gateway.front.listeners import InvalidListener, Listener, ListenerSpec, parse_listener
from gateway.security.protocol import SecurityProtocol

SASL = SecurityProtocol.SASL_PLAINTEXT

GOOD = [
    ("127.0.0.1:9092", ListenerSpec("PLAINTEXT", "127.0.0.1", 9092)),
    ("PLAINTEXT://127.0.0.1:9092", ListenerSpec("PLAINTEXT", "127.0.0.1", 9092)),
    ("SASL_PLAINTEXT://127.0.0.1:9092", ListenerSpec("SASL_PLAINTEXT", "127.0.0.1", 9092, protocol=SASL)),
    ("IN=SASL_PLAINTEXT://[::1]:9092", ListenerSpec("IN", "::1", 9092, protocol=SASL)),
    ("localhost:0", ListenerSpec("PLAINTEXT", "localhost", 0)),
    ("[::1]:9092", ListenerSpec("PLAINTEXT", "::1", 9092)),
    ("[0:0:0:0:0:0:0:1]:9092", ListenerSpec("PLAINTEXT", "::1", 9092)),
    ("0.0.0.0:9092", ListenerSpec("PLAINTEXT", "0.0.0.0", 9092)),
    ("[::]:9092", ListenerSpec("PLAINTEXT", "::", 9092)),
    (":9092", ListenerSpec("PLAINTEXT", "::", 9092)),
    ("*:9092", ListenerSpec("PLAINTEXT", "::", 9092)),
    ("my-host_1.example:65535", ListenerSpec("PLAINTEXT", "my-host_1.example", 65535)),
    ("IN=10.0.0.1:9092", ListenerSpec("IN", "10.0.0.1", 9092)),
    (
        "OUT=0.0.0.0:9094@kafka.example:19094",
        ListenerSpec("OUT", "0.0.0.0", 9094, "kafka.example", 19094),
    ),
    ("[::]:1@[2001:db8::1]:2", ListenerSpec("PLAINTEXT", "::", 1, "2001:db8::1", 2)),
    ("127.0.0.1:0@proxy:0", ListenerSpec("PLAINTEXT", "127.0.0.1", 0, "proxy", None)),
]


@pytest.mark.parametrize(("text", "spec"), GOOD, ids=[text for text, _ in GOOD])
def test_a_listener_is_understood(text: str, spec: ListenerSpec) -> None:
    assert parse_listener(text) == spec


@pytest.mark.parametrize("text", [text for text, _ in GOOD])
def test_a_listener_written_out_is_the_same_listener(text: str) -> None:
    spec = parse_listener(text)
    assert parse_listener(str(spec)) == spec


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "HOST:PORT"),
        ("9092", "HOST:PORT"),
        ("127.0.0.1", "no port"),
        ("127.0.0.1:", "no port"),
        ("::1:9092", "brackets"),
        ("[::1]", "no port"),
        ("[zz]:1", "not an IPv6 address"),
        ("[127.0.0.1]:1", "not an IPv6 address"),
        ("h:65536", "not a port"),
        ("h:-1", "not a port"),
        ("h:+1", "not a port"),
        ("h:٣", "not a port"),
        ("h:" + "9" * 5000, "not a port"),
        ("a b:1", "not a host name"),
        ("-h:1", "not a host name"),
        ("TLS://127.0.0.1:9092", "'TLS' is not a protocol that is offered"),
        ("=h:1", "not a listener name"),
        ("1=h:1", "not a listener name"),
        ("h:1@", "no port"),
        ("h:1@b", "no port"),
        ("h:1@0.0.0.0:1", "cannot connect"),
        ("h:1@[::]:1", "cannot connect"),
        ("h:1@:1", "cannot connect"),
    ],
)
def test_a_bad_listener_is_refused_with_what_to_write(text: str, words: str) -> None:
    with pytest.raises(InvalidListener, match=words.replace(".", r"\.")):
        parse_listener(text)


@pytest.mark.parametrize(
    ("listener", "reached", "told"),
    [
        (Listener("A", "127.0.0.1", 9092), "127.0.0.1", ("127.0.0.1", 9092)),
        (Listener("A", "localhost", 9092), "127.0.0.1", ("localhost", 9092)),
        (Listener("A", "::1", 9092), "::1", ("::1", 9092)),
        (Listener("A", "0.0.0.0", 9092), "10.1.2.3", ("10.1.2.3", 9092)),
        (Listener("A", "::", 9092), "2001:db8::7", ("2001:db8::7", 9092)),
        (Listener("A", "::", 9092), "::ffff:10.1.2.3", ("10.1.2.3", 9092)),
        (Listener("A", "::", 9092), "fe80::1%eth0", ("fe80::1", 9092)),
        (Listener("A", "0.0.0.0", 9092, "kafka.example", 19092), "10.1.2.3", ("kafka.example", 19092)),
        (Listener("A", "127.0.0.1", 9092, "proxy", None), "127.0.0.1", ("proxy", 9092)),
    ],
)
def test_clients_are_told_an_address_that_they_can_reach(
    listener: Listener, reached: str, told: tuple[str, int]
) -> None:
    assert listener.advertised(reached) == told
