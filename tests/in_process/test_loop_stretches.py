"""No request keeps the loop for long, whatever the limits let in: every API gets the worst that its schema
has.

Measured is the loop's own processor time between two points where others have a turn, so other threads and a
busy machine do not count.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.common.handlers import Api
from gateway.front.registry import load_apis
from tests.in_process.loop_stretches import (
    LONGEST_SECONDS,
    Scene,
    scene,
    shortest_of_some,
    stretches,
)
from tests.in_process.worst_requests import Shape
from wireproto.kafka.primitives import MAX_ARRAY_ELEMENTS

PATIENCE_SECONDS: Final = 170

CHARGED: Final = frozenset(
    {"Metadata", "FindCoordinator", "DescribeGroups", "OffsetForLeaderEpoch", "DeleteGroups", "OffsetFetch",
     "DescribeTransactions", "ElectLeaders", "DescribeUserScramCredentials"}
)  # fmt: skip
"""APIs that charge each element (Fetch, ListOffsets and OffsetCommit count them)."""


PARTS: Final = 4
"""Groups of APIs, each with a gateway of its own."""


@dataclass
class Running:
    """A scene in a trio loop that each test enters with a function of its own."""

    data: Path
    monkeypatch: pytest.MonkeyPatch

    def run(self, body: Any) -> None:
        async def main() -> None:
            with trio.fail_after(PATIENCE_SECONDS):
                async with scene(self.data, self.monkeypatch) as made:
                    await body(made)

        trio.run(main)


@pytest.fixture
def gateway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Running:
    return Running(tmp_path, monkeypatch)


APIS: Final = load_apis().all()


@pytest.mark.parametrize("newest", [True, False], ids=["newest", "oldest"])
@pytest.mark.parametrize("part", range(PARTS))
def test_no_api_keeps_the_loop_for_long_with_what_the_limits_let_in(
    gateway: Running, newest: bool, part: int
) -> None:
    async def body(made: Scene) -> None:
        too_long, uncharged = [], []
        for api in APIS[part::PARTS]:
            if not newest and api.min_version == api.max_version:
                continue
            for one in await stretches(made, api, api.max_version if newest else api.min_version):
                if one.longest >= LONGEST_SECONDS:
                    too_long.append((one.row(), one.where))
                if api.name in CHARGED and one.outcome != "closed" and one.charged * 2 < one.total - 0.05:
                    uncharged.append(one.row())
        assert not too_long
        assert not uncharged

    gateway.run(body)


def test_no_shape_of_a_request_keeps_the_loop_for_long(gateway: Running) -> None:
    """Any API and version, and any number of elements within elements."""
    names = [str, lambda _: "", lambda _: "t", lambda number: f"t{number}"]

    async def body(made: Scene) -> None:
        token = trio.lowlevel.current_trio_token()

        @settings(max_examples=40, deadline=None, derandomize=True, database=None,
                  suppress_health_check=list(HealthCheck))  # fmt: skip
        @given(
            api=st.sampled_from(APIS),
            part=st.floats(0, 1),
            outer=st.integers(1, MAX_ARRAY_ELEMENTS - 1),
            inner=st.integers(0, 1000),
            name=st.sampled_from(names),
        )
        def any_shape(api: Api, part: float, outer: int, inner: int, name: Any) -> None:
            version = api.min_version + round(part * (api.max_version - api.min_version))
            shape = Shape(min(outer, 150_000 // (1 + inner)), inner, name)
            one = trio.from_thread.run(partial(shortest_of_some, made, api, version, shape), trio_token=token)
            assert one is None or one.longest < LONGEST_SECONDS, (one.row(), one.where)

        await trio.to_thread.run_sync(any_shape)

    gateway.run(body)
