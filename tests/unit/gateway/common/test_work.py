"""Others have their turn while a large request is worked off."""

from __future__ import annotations

import pytest
import trio

from gateway.common.costs import ELEMENT
from gateway.common.turns import TURN
from tests.unit.gateway.answers.large_requests import requests
from tests.unit.gateway.api.asking import FakeBroker, ask_async


@pytest.mark.parametrize("index", range(len(requests(1))))
def test_others_have_their_turn_while_a_large_request_is_worked_off(index: int) -> None:
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(other)
            await ask_async(FakeBroker(), requests(10 * (TURN // ELEMENT))[index])
            nursery.cancel_scope.cancel()

    trio.run(main)
    assert turns >= 5  # one for each breath but the first and the last
