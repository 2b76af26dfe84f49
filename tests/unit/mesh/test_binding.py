"""Where the mesh may listen, by whether it has keys."""

from __future__ import annotations

import logging
import socket

import pytest

from mesh.binding import MeshExposed, bound_address, check_exposure
from mesh.joining import join_mesh
from mesh.links import Context
from mesh.node import Node
from mesh.protocol.endpoints import MeshListen

LOCAL = ("127.0.0.1", "127.8.9.10", "::1", "localhost")
OPEN = ("0.0.0.0", "::", "192.0.2.7", "2001:db8::7")


@pytest.mark.parametrize("host", LOCAL)
@pytest.mark.parametrize("has_keys", [False, True])
@pytest.mark.parametrize("insecure", [False, True])
def test_this_machine_reaches_it_always(
    host: str, has_keys: bool, insecure: bool, caplog: pytest.LogCaptureFixture
) -> None:
    check_exposure(bound_address(host), has_keys=has_keys, insecure=insecure)
    assert not caplog.records


@pytest.mark.parametrize("host", OPEN)
def test_others_reach_it_with_keys(host: str, caplog: pytest.LogCaptureFixture) -> None:
    for insecure in (False, True):
        check_exposure(host, has_keys=True, insecure=insecure)
    assert not caplog.records


@pytest.mark.parametrize("host", OPEN)
def test_without_keys_it_is_refused_or_said(host: str, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(MeshExposed, match=r"dafka keys init.*--insecure-mesh"):
        check_exposure(host, has_keys=False, insecure=False)
    with caplog.at_level(logging.WARNING):
        check_exposure(host, has_keys=False, insecure=True)
    (record,) = caplog.records
    assert "--insecure-mesh" in record.getMessage()


def test_what_is_bound_is_what_was_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that leads to this machine, and elsewhere at the next look-up."""
    answers = ["127.0.0.1", "0.0.0.0"]

    def look_up(*_arguments: object, **_more: object) -> list[tuple[object, ...]]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (answers.pop(0), 0))]

    context = Context()
    node = Node(context)
    try:
        monkeypatch.setattr(socket, "getaddrinfo", look_up)
        beacon = join_mesh(context, node, MeshListen("moving.example"), (), "")
        monkeypatch.undo()
        with socket.create_server(("127.0.0.2", beacon.port)):
            pass
    finally:
        context.close()
