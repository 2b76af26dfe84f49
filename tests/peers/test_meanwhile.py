from __future__ import annotations

import threading

import pytest

from tests.peers.meanwhile import meanwhile


def test_what_happens_meanwhile_is_not_lost() -> None:
    tried = threading.Event()

    def fails() -> None:
        tried.set()
        raise ValueError("not written")

    with pytest.raises(ValueError, match="not written"), meanwhile(fails, 0.0):
        tried.wait()
    tried.clear()
    with meanwhile(tried.set, 0.0):
        assert tried.wait(60)
