"""What is written in several ways is one endpoint, and what nobody should connect to is none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh.protocol.endpoints import Endpoint, is_loopback, parse_endpoint, parse_host
from wireproto.dafka.errors import MalformedMessage


@pytest.mark.parametrize(
    ("text", "endpoint", "written"),
    [
        ("tcp://10.0.0.7:49152", Endpoint("10.0.0.7", 49152), "tcp://10.0.0.7:49152"),
        ("tcp://[::ffff:10.0.0.7]:1", Endpoint("10.0.0.7", 1), "tcp://10.0.0.7:1"),
        ("tcp://::ffff:10.0.0.7:1", Endpoint("10.0.0.7", 1), "tcp://10.0.0.7:1"),
        ("tcp://[::1]:65535", Endpoint("::1", 65535), "tcp://[::1]:65535"),
        ("tcp://::1:80", Endpoint("::1", 80), "tcp://[::1]:80"),
        ("tcp://[0:0:0:0:0:0:0:1]:80", Endpoint("::1", 80), "tcp://[::1]:80"),
        ("tcp://[fe80::1%eth0]:80", Endpoint("fe80::1%eth0", 80), "tcp://[fe80::1%eth0]:80"),
        ("tcp://Store-1.Example:80", Endpoint("store-1.example", 80), "tcp://store-1.example:80"),
        ("tcp://node_1:80", Endpoint("node_1", 80), "tcp://node_1:80"),
    ],
)
def test_one_form(text: str, endpoint: Endpoint, written: str) -> None:
    assert parse_endpoint(text) == endpoint
    assert str(endpoint) == written
    assert parse_endpoint(written) == endpoint


@pytest.mark.parametrize(
    "text",
    [
        "",
        "10.0.0.7:80",
        "tcp://",
        "tcp://10.0.0.7",
        "tcp://:80",
        "tcp://10.0.0.7:",
        "tcp://10.0.0.7:0",
        "tcp://10.0.0.7:65536",
        "tcp://10.0.0.7:8 0",
        "tcp://10.0.0.7:٣",
        "tcp://10.0.0.7:-1",
        "tcp://*:80",
        "tcp://0.0.0.0:80",
        "tcp://[::]:80",
        "tcp://[::ffff:0.0.0.0]:80",
        "tcp://224.0.0.1:80",
        "tcp://1.2:80",
        "tcp://017.0.0.1.:80",
        "tcp://127.1:80",
        "tcp://256.1.1.1:80",
        "tcp://eth0;10.0.0.7:80",
        "tcp://a b:80",
        "tcp://a/b:80",
        "tcp://-a:80",
        "tcp://" + "a" * 254 + ":80",
        "ipc:///tmp/socket:80",
        "inproc://name:80",
    ],
)
def test_nothing_to_connect_to(text: str) -> None:
    with pytest.raises(MalformedMessage):
        parse_endpoint(text)


@given(st.text(max_size=60))
def test_any_text_is_a_host_or_refused(text: str) -> None:
    try:
        host = parse_host(text)
    except MalformedMessage:
        return
    assert parse_host(host) == host
    assert parse_endpoint(str(Endpoint(host, 80))) == Endpoint(host, 80)


def test_whether_a_host_must_be_looked_up() -> None:
    names = [parse_endpoint(f"tcp://{host}:1") for host in ("localhost", "store-1", "a.b.example", "1a")]
    addresses = [parse_endpoint(f"tcp://{host}:1") for host in ("127.0.0.1", "[::1]", "[fe80::1%eth0]")]
    assert not any(endpoint.is_address for endpoint in names)
    assert all(endpoint.is_address for endpoint in addresses)


def test_who_reaches_a_host() -> None:
    assert all(is_loopback(host) for host in ("127.0.0.1", "127.9.9.9", "::1", "localhost"))
    assert not any(is_loopback(host) for host in ("0.0.0.0", "::", "10.0.0.7", "store-1", "*", ""))
