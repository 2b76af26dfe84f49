"""Levels of features in a catalog: who registers, who raises them, and who of both comes first."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
import trio.testing

from gateway.catalog import keys
from gateway.catalog.fenced import FencedCatalog
from gateway.catalog.interface import Compare, CompareFailed
from gateway.cluster.feature_levels import (
    LEVELS_BEFORE,
    METADATA,
    OF_THIS_RELEASE,
    PREFERRED_LEADERS,
    FeatureState,
    can_do,
)
from gateway.cluster.features import FeatureMissing, Features
from gateway.cluster.identity import cluster_entry
from gateway.leadership.records import (
    Address,
    AliveRecord,
    FinalizedFeatures,
    GatewayRecord,
    pack_alive,
    pack_features,
    pack_gateway,
    unpack_features,
    unpack_gateway,
)
from tests.unit.gateway.catalog.memory import MemoryCatalog
from wireproto.kafka.errors import ErrorCode, KafkaError

NAME, LATER = "dafka.first", "dafka.later"
OLD = {METADATA: (30, 30)}
NEW = {METADATA: (30, 30), NAME: (0, 1)}
LIFE, NEXT_LIFE = "A" * 16, "B" * 16


class Scene:
    """A catalog of a cluster from before there were levels, and gateways on it."""

    def __init__(self) -> None:
        self.memory = MemoryCatalog()

    def gateway(self, number: int, supported: Any = NEW, release: str = "2") -> Features:
        return Features(FencedCatalog(self.memory), number, release, supported)

    async def put(self, **puts: bytes) -> None:
        await self.memory.transact([], puts)

    async def is_alive(self, number: int, life: str = LIFE) -> None:
        await self.memory.transact([], {keys.alive_key(number): pack_alive(AliveRecord(life))})

    async def start(self, number: int, supported: Any = NEW, life: str = LIFE) -> Features:
        await self.is_alive(number, life)
        gateway = self.gateway(number, supported)
        await gateway.register(life, f"host-{number}", "")
        return gateway

    def finalized(self) -> FinalizedFeatures:
        entry = self.memory.get(keys.FEATURES)
        return LEVELS_BEFORE if entry is None else unpack_features(entry.value)

    def format(self) -> int:
        entry = self.memory.get(keys.CLUSTER)
        assert entry is not None
        return int(keys.unpack(entry.value)["format"])


def run(body: Callable[[Scene], Awaitable[None]]) -> None:
    async def main() -> None:
        scene = Scene()
        await scene.memory.transact([], cluster_entry("c"))
        with trio.fail_after(20):
            await body(scene)

    trio.run(main)


def to(level: int, name: str = NAME) -> Callable[[FeatureState], dict[str, int]]:
    """Raised where all can do it."""

    def decide(state: FeatureState) -> dict[str, int]:
        if state.starting or not all(can_do(one, name, level) for one in state.supported.values()):
            raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION, "somebody cannot")
        return {name: level}

    return decide


def test_a_catalog_from_before_has_the_levels_from_before() -> None:
    async def body(scene: Scene) -> None:
        one = scene.gateway(1)
        one.read()
        assert (one.level(METADATA), one.level(NAME), one.level("nonsense")) == (30, 0, 0)
        assert one.compare() == Compare(keys.FEATURES, 0)

    run(body)


def test_a_level_is_raised_and_lowered_and_the_format_keeps_releases_from_before_out() -> None:
    async def body(scene: Scene) -> None:
        one, two = await scene.start(1), await scene.start(2)
        assert scene.format() == keys.FORMAT_BEFORE_FEATURES
        await one.change(to(1))
        assert scene.finalized() == FinalizedFeatures(1, {METADATA: 30, NAME: 1}, "2")
        assert scene.format() == keys.FORMAT
        assert two.level(NAME) == 0, "as it has read it"
        two.read()
        assert two.level(NAME) == 1
        await two.change(to(0))
        assert scene.finalized() == FinalizedFeatures(2, {METADATA: 30, NAME: 0}, "2")
        assert scene.format() == keys.FORMAT_BEFORE_FEATURES

    run(body)


def test_what_is_as_wanted_is_not_written_again() -> None:
    async def body(scene: Scene) -> None:
        one = await scene.start(1)
        await one.change(to(1))
        before = scene.memory.revision
        await one.change(to(1))
        assert scene.memory.revision == before

    run(body)


def test_one_that_is_refused_leaves_everything_as_it_was() -> None:
    async def body(scene: Scene) -> None:
        one, _ = await scene.start(1), await scene.start(2, OLD)
        before = scene.memory.revision
        with pytest.raises(KafkaError, match="somebody cannot"):
            await one.change(to(1))
        assert scene.memory.revision == before

    run(body)


def test_a_gateway_that_cannot_do_a_level_does_not_register() -> None:
    async def body(scene: Scene) -> None:
        one = await scene.start(1)
        await one.change(to(1))
        before = scene.memory.revision
        old = scene.gateway(2, OLD, "1")
        expected = (
            r"memory: the cluster's feature dafka.first is at level 1, and this release does not know it "
            r"\(1\). Start release 2, which has set the level, or a newer one"
        )
        with pytest.raises(FeatureMissing, match=expected):
            await old.register(LIFE, "host", "")
        assert scene.memory.revision == before

    run(body)


def test_a_gateway_says_what_it_can_and_where_it_is_reached_stays() -> None:
    async def body(scene: Scene) -> None:
        there = GatewayRecord("before", "a", {"P": Address("h", 1)}, {}, "1")
        await scene.memory.transact([], {keys.gateway_key(1): pack_gateway(there)})
        await scene.gateway(1).register(LIFE, "host", "b")
        entry = scene.memory.get(keys.gateway_key(1))
        assert entry is not None
        expected = GatewayRecord("host", "b", {"P": Address("h", 1)}, NEW, "2", LIFE)
        assert unpack_gateway(entry.value) == expected

    run(body)


@pytest.mark.parametrize("first", ["the level", "the gateway"])
def test_of_a_raise_and_a_gateway_that_comes_at_that_moment_one_sees_the_other(first: str) -> None:
    """What the first one writes comes while the second waits for its transaction."""

    async def body(scene: Scene) -> None:
        of_now = {keys.CLUSTER: keys.pack({"id": "c", "format": keys.FORMAT})}
        await scene.memory.transact([], of_now)  # or its format would be raised first
        one = await scene.start(1)
        old = scene.gateway(2, OLD)
        await scene.is_alive(2)
        # It said in an earlier life, of another release, that it can.
        was = GatewayRecord("h", "", {}, NEW, "2", LIFE)
        await scene.memory.transact([], {keys.gateway_key(2): pack_gateway(was)})
        outcomes: dict[str, str] = {}

        async def raise_it() -> None:
            try:
                await one.change(to(1))
            except KafkaError as error:
                outcomes["the level"] = error.message

        async def register() -> None:
            try:
                await old.register(LIFE, "host", "")
            except FeatureMissing:
                outcomes["the gateway"] = "refused"

        order = [raise_it, register] if first == "the level" else [register, raise_it]
        async with trio.open_nursery() as nursery:
            with scene.memory.held():
                for task in order:
                    nursery.start_soon(task)
                    await trio.testing.wait_all_tasks_blocked()
        assert len(outcomes) == 1, "never both, and never none"
        raised = scene.finalized().levels.get(NAME, 0) == 1
        assert outcomes == ({"the gateway": "refused"} if raised else {"the level": "somebody cannot"})

    run(body)


def test_a_gateway_of_a_release_from_before_that_comes_at_that_moment_is_seen() -> None:
    """It looks at the format alone, when its place is its own: it took that before the format went up."""

    async def body(scene: Scene) -> None:
        one = await scene.start(1)
        states: list[FeatureState] = []

        def decide(state: FeatureState) -> dict[str, int]:
            states.append(state)
            return to(1)(state)

        was = pack_gateway(GatewayRecord("h", "", {}, NEW, "2", NEXT_LIFE))
        await scene.memory.transact([], {keys.gateway_key(2): was})
        put = scene.memory.transact

        async def transact(compares: Any, puts: Any, *more: Any) -> int:
            if keys.CLUSTER in puts and len(states) == 1:
                await scene.is_alive(2, LIFE)
            return await put(compares, puts, *more)

        scene.memory.transact = transact  # type: ignore[method-assign, assignment]
        with pytest.raises(KafkaError, match="somebody cannot"):
            await one.change(decide)
        assert [sorted(state.starting) for state in states] == [[], [2]]
        assert scene.finalized() == LEVELS_BEFORE
        assert scene.format() == keys.FORMAT_BEFORE_FEATURES, "as it was: such a gateway may start"

    run(body)


def test_all_that_were_not_removed_count_and_those_that_are_gone_are_told() -> None:
    async def body(scene: Scene) -> None:
        one = await scene.start(1)
        for number, features in ((2, {}), (3, NEW)):
            record = GatewayRecord("h", "", {}, features, "1", LIFE)
            await scene.memory.transact([], {keys.gateway_key(number): pack_gateway(record)})
        await scene.memory.transact([], {keys.gateway_key(4): b'{"v":2}'})
        await scene.is_alive(2)
        await scene.is_alive(3, NEXT_LIFE)
        await scene.is_alive(5)
        state = one.state()
        assert state.supported == {1: NEW, 2: OLD, 3: NEW, 4: OLD}
        assert state.starting == {3, 5}
        assert state.gone == {4}

    run(body)


def test_one_that_has_the_catalog_for_itself_is_the_only_one() -> None:
    async def body(scene: Scene) -> None:
        one = scene.gateway(1)
        assert one.state() == FeatureState(LEVELS_BEFORE, {1: NEW})
        await one.change(to(1))
        one.read()
        assert one.level(NAME) == 1

    run(body)


def test_what_needs_a_feature_is_told() -> None:
    async def body(scene: Scene) -> None:
        one = scene.gateway(1)
        await scene.memory.transact([], {"/preferred/a/1": b"{}", "/preferred/a/2": b"{}"})
        assert one.state().in_use == {PREFERRED_LEADERS: "the catalog has /preferred/a/1, and maybe more"}

    run(body)


def test_a_level_is_not_lowered_behind_what_needs_it() -> None:
    """It is put when whoever lowers the level has looked and found nothing."""

    async def body(scene: Scene) -> None:
        one, two = await scene.start(1, OF_THIS_RELEASE), await scene.start(2, OF_THIS_RELEASE)
        await one.change(lambda _: {PREFERRED_LEADERS: 1})
        two.read()
        put = scene.memory.transact
        looks: list[dict[str, str]] = []

        def decide(state: FeatureState) -> dict[str, int]:
            looks.append(dict(state.in_use))
            if state.in_use:
                raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION, "it is in use")
            return {PREFERRED_LEADERS: 0}

        async def transact(compares: Any, puts: Any, *more: Any) -> int:
            if len(looks) == 1:
                needed, marks = two.needed(PREFERRED_LEADERS)
                await put(needed, {"/preferred/a/1": b"{}", **marks})
            return await put(compares, puts, *more)

        scene.memory.transact = transact  # type: ignore[method-assign, assignment]
        with pytest.raises(KafkaError, match="it is in use"):
            await one.change(decide)
        assert [bool(look) for look in looks] == [False, True]
        assert scene.finalized().levels[PREFERRED_LEADERS] == 1
        assert scene.format() == keys.FORMAT

    run(body)


def test_what_needs_a_feature_is_not_put_behind_its_end() -> None:
    async def body(scene: Scene) -> None:
        one, two = await scene.start(1, OF_THIS_RELEASE), await scene.start(2, OF_THIS_RELEASE)
        await one.change(lambda _: {PREFERRED_LEADERS: 1})
        two.read()
        needed, marks = two.needed(PREFERRED_LEADERS)
        await one.change(lambda _: {PREFERRED_LEADERS: 0})
        with pytest.raises(CompareFailed):
            await scene.memory.transact(needed, {"/preferred/a/1": b"{}", **marks})
        two.read()
        with pytest.raises(KafkaError, match="'dafka gateways upgrade' raises it"):
            two.needed(PREFERRED_LEADERS)

    run(body)


def test_the_format_is_not_taken_back_under_a_level_that_another_one_has_raised() -> None:
    async def body(scene: Scene) -> None:
        one, two = await scene.start(1), await scene.start(2)
        put = scene.memory.transact
        looks = 0

        def decide(_state: FeatureState) -> dict[str, int]:
            nonlocal looks
            looks += 1
            if looks > 1:
                raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION, "somebody cannot")
            return {NAME: 1}

        async def transact(compares: Any, puts: Any, *more: Any) -> int:
            if looks == 2:
                scene.memory.transact = put  # type: ignore[method-assign]
                await two.change(to(1))
            return await put(compares, puts, *more)

        scene.memory.transact = transact  # type: ignore[method-assign, assignment]
        with pytest.raises(KafkaError, match="somebody cannot"):
            await one.change(decide)
        assert scene.finalized().levels[NAME] == 1
        assert scene.format() == keys.FORMAT

    run(body)


def test_a_format_that_was_left_raised_is_taken_back_with_the_next_look() -> None:
    """A gateway has died between the two steps of a raise."""

    async def body(scene: Scene) -> None:
        one = await scene.start(1)
        await one.change(to(1))
        await scene.memory.transact([], {}, [keys.FEATURES])
        assert scene.format() == keys.FORMAT
        await one.change(to(0))
        assert scene.format() == keys.FORMAT_BEFORE_FEATURES

    run(body)


def test_what_later_releases_have_said_is_kept() -> None:
    async def body(scene: Scene) -> None:
        later = FinalizedFeatures(7, {METADATA: 30, LATER: 0}, "9", {"since": ["x"]})
        await scene.memory.transact([], {keys.FEATURES: pack_features(later)})
        one = await scene.start(1)
        await one.change(to(1))
        expected = FinalizedFeatures(8, {METADATA: 30, LATER: 0, NAME: 1}, "2", {"since": ["x"]})
        assert scene.finalized() == expected

    run(body)


@pytest.mark.parametrize("value", [b"", b'{"v":2}', b'{"v":1,"epoch":1,"levels":{"f":-1},"release":""}'])
def test_levels_that_cannot_be_read_are_refused(value: bytes) -> None:
    async def body(scene: Scene) -> None:
        await scene.memory.transact([], {keys.FEATURES: value})
        with pytest.raises(FeatureMissing, match="the levels of the cluster's features cannot be read"):
            scene.gateway(1).read()

    run(body)


def test_a_new_cluster_begins_with_all_that_its_first_gateway_can() -> None:
    async def body(scene: Scene) -> None:
        new = scene.gateway(1).of_new_cluster(rebuilt=False)
        assert new is not None
        assert unpack_features(new) == FinalizedFeatures(1, {METADATA: 30, NAME: 1}, "2")
        assert keys.unpack(cluster_entry("c", new)[keys.CLUSTER])["format"] == keys.FORMAT
        old = scene.gateway(1, OLD).of_new_cluster(rebuilt=False)
        assert keys.unpack(cluster_entry("c", old)[keys.CLUSTER])["format"] == keys.FORMAT_BEFORE_FEATURES
        assert scene.gateway(1).of_new_cluster(rebuilt=True) is None
        await scene.memory.transact([], {keys.FEATURES: new})
        assert scene.gateway(1, OLD).of_new_cluster(rebuilt=True) == new

    run(body)
