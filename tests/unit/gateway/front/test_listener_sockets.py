"""Binding: real sockets on free ports."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import trio

from gateway.front import listener_sockets
from gateway.front.listener_sockets import ListenError, ListenerSocket, close_all, open_listeners
from gateway.front.listeners import parse_listener


@contextmanager
def opened(*texts: str) -> Iterator[list[ListenerSocket]]:
    sockets = trio.run(open_listeners, [parse_listener(text) for text in texts])
    try:
        yield sockets
    finally:
        close_all(sockets)


def resolve_to(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    """Lets every host name have these addresses."""

    async def getaddrinfo(_host: str, port: int, **_: object) -> list[tuple[object, ...]]:
        families = [socket.AF_INET6 if ":" in each else socket.AF_INET for each in addresses]
        return [
            (family, socket.SOCK_STREAM, 6, "", (each, port))
            for family, each in zip(families, addresses, strict=True)
        ]

    monkeypatch.setattr(trio.socket, "getaddrinfo", getaddrinfo)


def addresses_of(sockets: list[ListenerSocket]) -> list[tuple[str, int]]:
    return [entry.socket.getsockname()[:2] for entry in sockets]


def test_port_0_picks_a_port_and_says_which() -> None:
    with opened("A=127.0.0.1:0@proxy:7") as [entry]:
        host, port = entry.socket.getsockname()
        assert host == "127.0.0.1"
        assert port > 0
        assert (entry.listener.name, entry.listener.host, entry.listener.port) == ("A", "127.0.0.1", port)
        assert entry.listener.advertised("127.0.0.1") == ("proxy", 7)
        socket.create_connection(("127.0.0.1", port)).close()


def test_a_name_binds_every_address_it_has_on_one_port(monkeypatch: pytest.MonkeyPatch) -> None:
    resolve_to(monkeypatch, "127.0.0.1", "127.0.0.2", "127.0.0.1")
    with opened("myhost:0") as sockets:
        port = sockets[0].listener.port
        assert addresses_of(sockets) == [("127.0.0.1", port), ("127.0.0.2", port)]
        assert {entry.listener for entry in sockets} == {sockets[0].listener}
        assert sockets[0].listener.advertised("127.0.0.2") == ("myhost", port)


def test_a_free_port_is_sought_until_it_is_free_on_all_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    resolve_to(monkeypatch, "127.0.0.1", "127.0.0.2")
    real, ports = listener_sockets._bind, []

    def bind(family: socket.AddressFamily, host: str, port: int) -> socket.socket:
        ports.append((host, port))
        if len(ports) == 2:
            raise OSError(98, "Address already in use")
        return real(family, host, port)

    monkeypatch.setattr(listener_sockets, "_bind", bind)
    with opened("myhost:0") as sockets:
        port = sockets[0].listener.port
        assert addresses_of(sockets) == [("127.0.0.1", port), ("127.0.0.2", port)]
    assert [host for host, _ in ports] == ["127.0.0.1", "127.0.0.2"] * 2


def test_an_address_that_the_machine_lacks_is_left_out_when_the_name_has_another(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    resolve_to(monkeypatch, "203.0.113.7", "127.0.0.1")
    with caplog.at_level(logging.INFO), opened("myhost:0") as sockets:
        assert addresses_of(sockets) == [("127.0.0.1", sockets[0].listener.port)]
    assert "not listening on 203.0.113.7:0" in caplog.text


def test_an_ipv6_listener_leaves_ipv4_alone() -> None:
    if not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    with opened("[::1]:0") as [entry]:
        assert entry.socket.getsockname()[0] == "::1"
        with opened(f"127.0.0.1:{entry.listener.port}") as [other]:
            assert other.listener.port == entry.listener.port


def test_every_address_means_ipv4_as_well() -> None:
    with opened(":0") as sockets:
        port = sockets[0].listener.port
        socket.create_connection(("127.0.0.1", port)).close()
        assert ("0.0.0.0", port) in addresses_of(sockets)


def test_both_wildcards_on_one_port_do_not_collide() -> None:
    with opened("0.0.0.0:0") as [first]:
        port = first.listener.port
    with opened(f"0.0.0.0:{port}", f"[::]:{port}") as sockets:
        assert addresses_of(sockets)[0] == ("0.0.0.0", port)
        assert len(set(addresses_of(sockets))) == len(sockets)


def test_a_taken_port_is_refused_with_what_to_do_and_nothing_stays_bound() -> None:
    with opened("127.0.0.1:0") as [taken]:
        port = taken.listener.port
        free = socket.create_server(("127.0.0.1", 0))
        other = free.getsockname()[1]
        free.close()
        with pytest.raises(ListenError, match=rf"127\.0\.0\.1:{port}.*is taken.*--listen 127\.0\.0\.1:0"):
            trio.run(
                open_listeners, [parse_listener(f"127.0.0.1:{other}"), parse_listener(f"127.0.0.1:{port}")]
            )
        with opened(f"127.0.0.1:{other}") as [again]:
            assert again.listener.port == other


def test_an_address_of_another_machine_is_refused_with_what_to_do() -> None:
    with pytest.raises(ListenError, match=r"no such address.*--listen 0\.0\.0\.0:9092@203\.0\.113\.7:9092"):
        trio.run(open_listeners, [parse_listener("203.0.113.7:9092")])


def test_an_unknown_host_name_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async def getaddrinfo(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(trio.socket, "getaddrinfo", getaddrinfo)
    with pytest.raises(ListenError, match="'nohost' has no address") as refused:
        trio.run(open_listeners, [parse_listener("nohost:9092")])
    assert refused.value.exit_code == 2
