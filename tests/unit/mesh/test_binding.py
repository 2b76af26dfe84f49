"""Where the mesh may listen, by whether it has keys."""

from __future__ import annotations

import logging

import pytest

from mesh.binding import MeshExposed, check_exposure

LOCAL = ("127.0.0.1", "127.8.9.10", "::1", "localhost")
OPEN = ("0.0.0.0", "::", "192.0.2.7", "2001:db8::7")


@pytest.mark.parametrize("host", LOCAL)
@pytest.mark.parametrize("has_keys", [False, True])
@pytest.mark.parametrize("insecure", [False, True])
def test_this_machine_reaches_it_always(
    host: str, has_keys: bool, insecure: bool, caplog: pytest.LogCaptureFixture
) -> None:
    check_exposure(host, has_keys=has_keys, insecure=insecure)
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
