"""Large answers are encoded in a worker thread, and as small ones are."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
import trio

from gateway.answers import encoding
from gateway.answers.answer_cache import AnswerCache
from gateway.api import metadata
from tests.unit.gateway.answers.large_requests import requests
from tests.unit.gateway.api.asking import FakeBroker, ask


@pytest.mark.parametrize("index", range(len(requests(1))))
def test_a_large_answer_is_encoded_in_a_worker_thread_and_the_same(
    index: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = []
    in_thread = trio.to_thread.run_sync

    async def spy(encode: Callable[[], bytes]) -> bytes:
        def observed() -> bytes:
            threads.append(threading.current_thread())
            return encode()

        return await in_thread(observed)

    monkeypatch.setattr(trio.to_thread, "run_sync", spy)
    small = ask(FakeBroker(), requests(50)[index])
    assert threads == []
    monkeypatch.setattr(encoding, "MANY_ELEMENTS", 49)
    monkeypatch.setattr(metadata, "_cache", AnswerCache())
    assert ask(FakeBroker(), requests(50)[index]) == small
    (thread,) = threads
    assert thread is not threading.main_thread()
