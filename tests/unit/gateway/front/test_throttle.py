"""Who uses more than his quotas allow is answered, and then not read; on a clock that only the test moves."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway.common.handlers import Request, Response
from gateway.front.limits import CHECK_SECONDS, LEFT_SECONDS, LEFT_WHILE_MUTED_SECONDS
from gateway.front.throttle import BusyTime
from gateway.quotas.client_quotas import Charges, ClientQuotas
from gateway.quotas.entities import CLIENT_ID, USER, Entity
from gateway.security.access import Access, Unrestricted
from gateway.security.acls import CLUSTER_NAME, Operation, ResourceType
from gateway.security.principal import Principal
from gateway.security.sasl_session import SaslSession
from tests.unit.gateway.api.asking import allowed
from tests.unit.gateway.front.test_authentication import Speaker, session_of, with_sasl
from tests.unit.gateway.kafka_wire import (
    BEGIN,
    ECHO,
    Client,
    Fakes,
    Running,
    answer,
    raw_body,
    request,
    run,
    running,
)
from wireproto.kafka.api_keys import ApiKey

ANONYMOUS: Entity = frozenset({(USER, "ANONYMOUS")})
APP: Entity = frozenset({(CLIENT_ID, "app")})
RATE = {"producer_byte_rate": 1_000.0}
"""A burst is 10,000 bytes."""

TOLD = ApiKey.HEARTBEAT
"""An API whose answers tell the time; its body is how many bytes it charges."""


def told(correlation_id: int, throttle_ms: int) -> bytes:
    return answer(correlation_id, throttle_ms.to_bytes(4, "big"))


def use(correlation_id: int, size: int, *, client: str = "t") -> bytes:
    return request(TOLD, correlation_id, b"%d" % size, version=1, client=client)


class Charging(Fakes):
    def __init__(self) -> None:
        super().__init__()
        self.charges: list[Charges | None] = []

        @self.registry.api(key=TOLD, name="Told", min_version=1, max_version=1, decoder=raw_body)
        async def charge(request: Request, broker: Any) -> Response:
            self.ran.append(bytes(request.body))
            self.charges.append(request.charges)
            if request.charges is not None:
                request.charges.produced(int(request.body))
            return told(request.header.correlation_id, 0)

        @self.registry.api(
            key=ApiKey.WRITE_TXN_MARKERS, name="Markers", min_version=1, max_version=1, decoder=raw_body
        )
        async def markers(request: Request, broker: Any) -> Response:
            return answer(request.header.correlation_id)


class Scene:
    def __init__(self, server: Running, client: Client, quotas: ClientQuotas, clock: MockClock) -> None:
        self.server = server
        self.client = client
        self.quotas = quotas
        self._clock = clock

    @property
    def ran(self) -> list[bytes]:
        return self.server.fakes.ran

    async def passes(self, seconds: float) -> None:
        await wait_all_tasks_blocked()
        self._clock.jump(seconds)
        await wait_all_tasks_blocked()

    async def pass_seconds(self, seconds: float) -> None:
        """With a look at all connections in each."""
        for _ in range(int(seconds / CHECK_SECONDS)):
            await self.passes(CHECK_SECONDS)


def everything(principal: Principal, _address: str) -> Access:
    return Unrestricted(principal)


def serve(
    body: Callable[[Scene], Awaitable[None]],
    session: SaslSession | None = None,
    grant: Callable[[Principal, str], Access] = everything,
) -> None:
    clock = MockClock()

    async def main() -> None:
        quotas = ClientQuotas(lambda: round(trio.current_time() * 1_000))
        serving = running(
            fakes=with_sasl(Charging()), quotas=quotas, begin_session=lambda _listener: session, grant=grant
        )
        async with serving as server, server.client() as client:
            await body(Scene(server, client, quotas, clock))

    run(main, clock)


def test_the_answer_leaves_at_once_and_nothing_is_read_until_the_time_is_over() -> None:
    async def body(scene: Scene) -> None:
        scene.quotas.put(ANONYMOUS, RATE)
        await scene.client.send(use(1, 15_000), use(2, 0))
        assert await scene.client.frame() == told(1, 5_000)
        await scene.passes(4.9)
        assert scene.ran == [b"15000"]
        await scene.passes(0.2)
        # 15,000 bytes of 5.1 s count for ten whole seconds, and of that the bound leaves 5 to wait.
        assert scene.ran == [b"15000", b"0"]
        assert (await scene.client.frame())[:8] == told(2, 0)[:8]

    serve(body)


def test_what_is_sent_meanwhile_holds_no_memory() -> None:
    async def body(scene: Scene) -> None:
        scene.quotas.put(ANONYMOUS, RATE)
        await scene.client.send(use(1, 15_000))
        assert await scene.client.frame() == told(1, 5_000)
        large = bytes(200_000)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(scene.client.send, request(ECHO, 2, large))
            await wait_all_tasks_blocked()
            assert set(scene.server.server.memory_used().values()) == {0}
            await scene.passes(5)
            assert await scene.client.frame() == answer(2, large)

    serve(body)


def test_others_are_read() -> None:
    async def body(scene: Scene) -> None:
        scene.quotas.put(APP, RATE)
        await scene.client.send(use(1, 15_000, client="app"))
        assert await scene.client.frame() == told(1, 5_000)
        async with scene.server.client() as other:
            await other.send(use(2, 15_000, client="job"), use(3, 15_000, client="job"))
            assert [await other.frame() for _ in range(2)] == [told(2, 0), told(3, 0)]
            # Another connection with the same id has used nothing of its own, but they share.
            await other.send(use(4, 0, client="app"))
            assert await other.frame() == told(4, 5_000)

    serve(body)


def test_what_begins_is_charged_then_and_what_follows_does_not_begin() -> None:
    async def body(scene: Scene) -> None:
        scene.quotas.put(ANONYMOUS, {"request_percentage": 1e-9})
        await scene.client.send(request(BEGIN, 1, b"a"), request(BEGIN, 2, b"b"))
        await wait_all_tasks_blocked()
        # However little it was, it is a window: what would begin meanwhile does not.
        assert scene.ran == [b"a"]
        scene.server.fakes.pending[0].finish()
        assert await scene.client.frame() == answer(1, b"a")
        await scene.passes(0.9)
        assert scene.ran == [b"a"]
        await scene.passes(0.2)
        assert scene.ran == [b"a", b"b"]
        scene.server.fakes.pending[1].finish()
        assert await scene.client.frame() == answer(2, b"b")

    serve(body)


@pytest.mark.parametrize("version", [5, 32_767])
def test_api_versions_of_a_version_that_is_not_known_are_answered_to_who_is_throttled_as_to_others(
    version: int,
) -> None:
    async def body(scene: Scene) -> None:
        asked = request(ApiKey.API_VERSIONS, 1, version=version)
        await scene.client.send(asked)
        plain = await scene.client.frame()
        scene.quotas.put(ANONYMOUS, {"request_percentage": 1e-9})
        await scene.client.send(asked)
        assert await scene.client.frame() == plain
        assert scene.quotas.throttled["request_percentage"].times == 1

    serve(body)


def test_metrics_count_what_was_throttled() -> None:
    async def body(scene: Scene) -> None:
        scene.quotas.put(ANONYMOUS, RATE)
        await scene.client.send(use(1, 15_000))
        assert await scene.client.frame() == told(1, 5_000)
        text = scene.server.server.metrics.text().decode()
        assert 'dafka_throttled_total{quota="producer_byte_rate"} 1' in text
        assert 'dafka_throttled_seconds_total{quota="producer_byte_rate"} 5' in text
        assert 'dafka_throttled_total{quota="consumer_byte_rate"} 0' in text
        assert 'dafka_throttled_total{quota="connection_creation_rate"} 0' in text
        assert "dafka_quota_meters 1" in text

    serve(body)


def test_without_quotas_nothing_is_charged() -> None:
    async def body(scene: Scene) -> None:
        await scene.client.send(use(1, 10**9), use(2, 10**9))
        assert [await scene.client.frame() for _ in range(2)] == [told(1, 0), told(2, 0)]
        assert scene.server.fakes.charges == [None, None]  # type: ignore[attr-defined]
        scene.quotas.put(ANONYMOUS, RATE)
        await scene.client.send(use(3, 15_000))
        assert await scene.client.frame() == told(3, 5_000)

    serve(body)


def test_a_gateway_that_stops_does_not_wait_for_who_is_not_read() -> None:
    async def body(scene: Scene) -> None:
        scene.quotas.put(ANONYMOUS, RATE)
        await scene.client.send(use(1, 10**9))
        assert await scene.client.frame() == told(1, 999_990_000)
        scene.server.server.shut_down()
        assert await scene.client.closed()

    serve(body)


def test_a_client_that_goes_while_it_is_not_read_is_let_go() -> None:
    async def body(scene: Scene) -> None:
        scene.quotas.put(ANONYMOUS, RATE)
        await scene.client.send(use(1, 10**9))
        assert await scene.client.frame() == told(1, 999_990_000)
        await scene.passes(3_600)
        (connection,) = scene.server.server.connections
        await scene.client.stream.aclose()
        await scene.pass_seconds(LEFT_WHILE_MUTED_SECONDS)
        assert connection in scene.server.server.connections
        await scene.pass_seconds(LEFT_SECONDS + 2)
        assert connection not in scene.server.server.connections

    serve(body)


def test_what_was_sent_before_a_client_went_is_taken_when_it_is_read_again() -> None:
    async def body(scene: Scene) -> None:
        scene.quotas.put(ANONYMOUS, RATE)
        await scene.client.send(use(1, 50_000))
        assert await scene.client.frame() == told(1, 40_000)
        await scene.client.send(request(ECHO, 2, b"a"), request(ECHO, 3, b"b"))
        await scene.client.stream.aclose()
        await scene.pass_seconds(39)
        assert scene.ran == [b"50000"]
        scene.quotas.put(ANONYMOUS, {})
        await scene.pass_seconds(2)
        assert scene.ran == [b"50000", b"a", b"b"]
        assert not scene.server.server.connections

    serve(body)


def test_who_is_not_known_yet_is_not_charged() -> None:
    async def body(scene: Scene) -> None:
        scene.quotas.put(ANONYMOUS, {"request_percentage": 1e-9})
        scene.quotas.put(frozenset({(USER, None)}), {"request_percentage": 1e-9})
        await scene.client.send(request(ApiKey.API_VERSIONS, 1, version=1))
        size_and_id = (await scene.client.frame())[:8]
        assert size_and_id[4:] == (1).to_bytes(4, "big")
        assert scene.quotas.measured == 0

    serve(body, session_of("alice"))


def test_who_is_known_is_charged_by_his_name() -> None:
    async def body(scene: Scene) -> None:
        scene.quotas.put(frozenset({(USER, "alice")}), RATE)
        scene.quotas.put(ANONYMOUS, {"producer_byte_rate": 1.0})
        speaker = Speaker(scene.client)
        await speaker.handshake()
        assert (await speaker.authenticate(b"\0alice\0secret")).error_code == 0
        await scene.client.send(use(1, 15_000))
        assert await scene.client.frame() == told(1, 5_000)

    serve(body, session_of("alice"))


@pytest.mark.parametrize(
    ("access", "times"),
    [
        pytest.param(allowed(), 1, id="denied"),
        pytest.param(allowed((Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)), 0, id="acts"),
        pytest.param(allowed((Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME)), 0, id="alters"),
        pytest.param(Unrestricted(), 0, id="no authorizer"),
    ],
)
def test_markers_are_for_nothing_only_to_who_may_write_them(access: Access, times: int) -> None:
    async def body(scene: Scene) -> None:
        scene.quotas.put(frozenset({(USER, access.principal.name)}), {"request_percentage": 1e-9})
        await scene.client.send(request(ApiKey.WRITE_TXN_MARKERS, 1, version=1))
        assert await scene.client.frame() == answer(1)
        assert scene.quotas.throttled["request_percentage"].times == times

    serve(body, grant=lambda _principal, _address: access)


class TestBusyTime:
    def measure(self, steps: Callable[[list[int]], Awaitable[object]]) -> int:
        """What is measured of a task, whose clock it moves itself."""
        clock = [0]
        busy = BusyTime(lambda: clock[0])

        async def main() -> None:
            await busy.measured(steps(clock))

        trio.run(main)
        return busy.so_far

    def test_waits_do_not_count(self) -> None:
        async def steps(clock: list[int]) -> None:
            clock[0] += 5
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(others, clock)
                    await trio.lowlevel.checkpoint()
                    clock[0] += 7
                    scope.cancel()
                    await trio.sleep_forever()
            clock[0] += 11

        async def others(clock: list[int]) -> None:
            clock[0] += 1_000
            await trio.lowlevel.checkpoint()

        assert self.measure(steps) == 23

    def test_what_failed_counts(self) -> None:
        async def fails(clock: list[int]) -> None:
            await trio.lowlevel.checkpoint()
            clock[0] += 3
            raise LookupError

        async def steps(clock: list[int]) -> None:
            busy = BusyTime(lambda: clock[0])
            with pytest.raises(LookupError):
                await busy.measured(fails(clock))
            assert busy.so_far == 3

        assert self.measure(steps) == 3

    def test_it_is_told_while_it_is_busy(self) -> None:
        clock = [0]
        busy = BusyTime(lambda: clock[0])
        seen = []

        async def steps() -> str:
            clock[0] += 2
            seen.append(busy.so_far)
            await trio.lowlevel.checkpoint()
            clock[0] += 3
            seen.append(busy.so_far)
            return "result"

        async def main() -> None:
            assert await busy.measured(steps()) == "result"

        trio.run(main)
        assert seen == [2, 5]
