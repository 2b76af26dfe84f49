"""Rounds: pairs that are measured one after the other, and what fails alone."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self, cast

import pytest

from tests.bench import runner
from tests.bench.growth_figures import SEGMENTS, _sizes
from tests.bench.measurement import Context, Cost, Figure, Measurement, NotHere
from tests.bench.runner import Plan, run
from tests.bench.servers import NO_DURABILITY, Durability, Kind

FSYNC, CACHED = Durability.FSYNC, Durability.CACHED


class Fake:
    """A server that notes its lives."""

    cpu_seconds = 0.0
    peak_rss_bytes = 7
    bootstrap = ""

    def __init__(self, name: str, lives: list[str]) -> None:
        self.name = name
        self._lives = lives

    def __enter__(self) -> Self:
        self._lives.append(self.name)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lives.append(f"end of {self.name}")


def value(context: Context) -> Iterator[Measurement]:
    yield Measurement("value", "MB/s", 1.0, True, Cost(2.0, None, "s/GB"))


def breaks(context: Context) -> Iterator[Measurement]:
    yield Measurement("before", "MB/s", 1.0, True)
    raise ValueError("broken")


def not_here(context: Context) -> Iterator[Measurement]:
    if cast("Any", context.server).name == "kafka":
        raise NotHere("it has none")
    yield from value(context)


def stopped(context: Context) -> Iterator[Measurement]:
    yield from value(context)
    raise KeyboardInterrupt


@pytest.fixture
def lives(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    figures = {
        "value": Figure(value, warm=False),
        "ceiling": Figure(value, warm=False, ceilings=True),
        "breaks": Figure(breaks, warm=False),
        "not-here": Figure(not_here, warm=False),
        "stopped": Figure(stopped, warm=False),
    }
    monkeypatch.setattr(runner, "FIGURES", figures)
    monkeypatch.setattr(runner, "await_first_metadata", lambda _server: 0.5)
    return []


def plan(lives: list[str], *figures: str, rounds: int = 1, **kinds: bool) -> Plan:
    """Of servers by name, True for a ceiling."""

    def make(name: str) -> Any:
        return lambda _durability: Fake(name, lives)

    made = {name: Kind(name, make(name), NO_DURABILITY, ceiling) for name, ceiling in kinds.items()}
    return Plan(made, {name: name for name in made}, figures, [FSYNC], rounds, 1.0)


def begun(lives: list[str]) -> list[str]:
    """Each life has ended before the next one."""
    assert lives[1::2] == [f"end of {name}" for name in lives[::2]]
    return lives[::2]


def test_pairs_are_interleaved_and_every_other_one_is_turned_round(lives: list[str]) -> None:
    results, failures = run(plan(lives, "value", "value", rounds=2, kafka=False, dafka=False))
    assert begun(lives) == ["kafka", "dafka", "kafka", "dafka", "dafka", "kafka", "dafka", "kafka"]
    assert failures == []
    ((_, row),) = results.rows()
    assert [sorted(row.of(name)) for name in ("kafka", "dafka")] == [[1, 2], [1, 2]]
    assert {one.peak_rss for one in row.of("dafka").values()} == {7}


def test_ceilings_are_measured_where_they_can_be(lives: list[str]) -> None:
    run(plan(lives, "value", "ceiling", kafka=False, dafka=False, sink=True))
    assert begun(lives) == ["kafka", "dafka", "kafka", "dafka", "sink"]


def test_a_figure_that_fails_is_told_and_others_go_on(lives: list[str]) -> None:
    results, failures = run(plan(lives, "breaks", "value", kafka=False, dafka=False))
    assert begun(lives) == ["kafka", "dafka"] * 2
    assert failures == [f"round 1, fsync, {name}, breaks: broken" for name in ("kafka", "dafka")]
    assert [metric for (_, metric), _ in results.rows()] == ["before", "value"]


def test_what_a_server_cannot_do_is_no_failure(lives: list[str]) -> None:
    results, failures = run(plan(lives, "not-here", kafka=False, dafka=False))
    assert failures == []
    ((_, row),) = results.rows()
    assert (row.of("kafka"), list(row.of("dafka"))) == ({}, [1])


def test_a_run_that_is_stopped_keeps_what_it_has(lives: list[str]) -> None:
    results, failures = run(plan(lives, "stopped", "value", kafka=False, dafka=False))
    assert begun(lives) == ["kafka"]
    assert (len(results.rows()), failures) == (1, [])


@pytest.mark.parametrize(
    ("scale", "sizes"), [(1.0, [1, 10, 100, 1000, 5000]), (0.2, [1, 10, 100, 1000]), (0.0, [1])]
)
def test_a_smaller_scale_leaves_out_the_largest_sizes(scale: float, sizes: list[int]) -> None:
    assert _sizes(SEGMENTS, cast("Context", type("Scaled", (), {"scale": scale}))) == sizes
