"""How long a gateway that hears nothing of the catalog serves somebody who was deleted at another one."""

from __future__ import annotations

from contextlib import suppress

import pytest
import trio
from trio.testing import MockClock

from gateway.cluster.alive import LEASE_SECONDS, LOOK_SECONDS
from gateway.cluster.scram_users import Deletion, ScramUsers
from gateway.front.sessions import Sessions
from gateway.security.scram import Hash
from tests.unit.gateway.catalog.memory import MemoryCatalog
from tests.unit.gateway.cluster.test_alive import A, Away, B, Process
from tests.unit.gateway.cluster.test_scram_users import upsertion
from tests.unit.gateway.front.test_authentication import NONE, Speaker, with_sasl
from tests.unit.gateway.kafka_wire import Fakes, run, running

STEP_SECONDS = 0.25
"""Between two requests."""


@pytest.mark.parametrize("is_back", [False, True])
def test_one_that_was_deleted_is_served_for_no_longer_than_a_lease(is_back: bool) -> None:
    """`is_back`: the catalog is reached again, and what was missed is heard, before the lease is old."""

    async def main() -> None:
        catalog, seen = Away(), MemoryCatalog()
        elsewhere, users = ScramUsers(catalog), ScramUsers(seen)
        for each in (elsewhere, users):
            await each.make(upsertion("alice", Hash.SHA_256))
        cut_off, other = Process(catalog, A), Process(catalog, B, gateway=2)
        async with (
            trio.open_nursery() as nursery,
            running(
                listen="SASL_PLAINTEXT://127.0.0.1:0",
                fakes=with_sasl(Fakes()),
                begin_session=Sessions(users, b"secret").begin,
            ) as server,
            server.client() as client,
        ):
            cut_off.alive.on_suspended(lambda suspended: server.server.suspend() if suspended else None)
            users.on_revoked(lambda _user, _kinds: server.server.revoke(alice.principal, {"PLAIN"}))
            for process in (cut_off, other):
                nursery.start_soon(process.run)
                await process.serves.wait()
            speaker = Speaker(client)
            await speaker.handshake()
            assert (await speaker.authenticate()).error_code == NONE
            (alice,) = (one.access for one in server.server.connections)
            catalog.away = True
            began = trio.current_time()
            await elsewhere.make(Deletion("alice", Hash.SHA_256.number))
            served = []
            with suppress(trio.BrokenResourceError):
                while await speaker.is_served():
                    served.append(trio.current_time() - began)
                    await trio.sleep(STEP_SECONDS)
                    if is_back and served[-1] > LEASE_SECONDS / 2:
                        await users.make(Deletion("alice", Hash.SHA_256.number))  # what it hears
            assert served[0] == pytest.approx(0, abs=STEP_SECONDS), "it goes on as it was"
            longest = LEASE_SECONDS / 2 + 2 * STEP_SECONDS if is_back else LEASE_SECONDS + LOOK_SECONDS
            assert longest / 2 < served[-1] < longest
            nursery.cancel_scope.cancel()

    run(main, MockClock(autojump_threshold=0.02))
