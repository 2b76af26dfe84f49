"""Who asks for much by many connections leaves every other step to another principal of its address."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import pytest

from gateway.common.handlers import Request, Response
from gateway.common.turns import TURN
from tests.unit.gateway.front.test_authentication import NONE, Speaker, session_of, with_sasl
from tests.unit.gateway.kafka_wire import ECHO, Fakes, answer, request, run, running

REQUESTS = 12
"""Of each connection."""


class Much(Fakes):
    """Each request asks for a whole turn's work, in four steps; `steps` says of whom, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[str] = []
        echo = self.registry.lookup(ECHO)
        assert echo is not None

        async def much(asked: Request, broker: Any) -> Response:
            for _ in range(4):
                await asked.work.before(TURN // 4)
                self.steps.append(asked.client.removeprefix("User:"))
            return answer(asked.header.correlation_id)

        self.registry._apis[ECHO] = replace(echo, handler=much)


@pytest.mark.parametrize("connections", [1, 4, 30])
def test_the_work_of_two_principals_alternates_however_many_connections_one_has(connections: int) -> None:
    async def main() -> None:
        fakes = with_sasl(Much())
        sessions = iter([session_of("bob"), *(session_of("alice") for _ in range(connections))])
        async with (
            AsyncExitStack() as stack,
            running(fakes=fakes, begin_session=lambda _listener: next(sessions)) as server,
        ):
            bob, *alices = [await stack.enter_async_context(server.client()) for _ in range(connections + 1)]
            for client, user in ((bob, "bob"), *((one, "alice") for one in alices)):
                speaker = Speaker(client)
                await speaker.handshake()
                assert (await speaker.authenticate(f"\0{user}\0secret".encode())).error_code == NONE
            for client in (*alices, bob):  # his come last
                await client.send(b"".join(request(ECHO, number) for number in range(REQUESTS)))
            for number in range(REQUESTS):
                assert await bob.frame() == answer(number)
            steps = list(fakes.steps)
            for client in alices:
                for number in range(REQUESTS):
                    assert await client.frame() == answer(number)
        mine = [at for at, who in enumerate(steps) if who == "bob"]
        assert len(mine) == 4 * REQUESTS
        # Between his first step and his last one there are as many of all others together.
        others = mine[-1] + 1 - mine[0] - len(mine)
        assert len(mine) - 8 <= others <= len(mine) + 8

    run(main)
