"""Others have their turn while a large request is worked off."""

from __future__ import annotations

import pytest
import trio

from gateway.common.costs import ELEMENT
from gateway.common.turns import TURN, Turns
from tests.unit.gateway.answers.large_requests import requests
from tests.unit.gateway.api.asking import FakeBroker, ask_async


@pytest.mark.parametrize("index", range(len(requests(1))))
def test_others_have_their_turn_while_a_large_request_is_worked_off(
    index: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = 0
    wait = Turns.wait

    async def counted(turns: Turns, least: int) -> None:
        nonlocal waits
        waits += 1
        await wait(turns, least)

    monkeypatch.setattr(Turns, "wait", counted)
    trio.run(ask_async, FakeBroker(), requests(10 * (TURN // ELEMENT))[index])
    assert waits >= 2  # what the requests are charged for an element differs
