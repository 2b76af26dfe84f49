"""Rounds: each figure with one server after the other, each of them anew on an empty directory."""

from __future__ import annotations

import json
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tests.bench.facts import say
from tests.bench.figures import FIGURES
from tests.bench.measurement import Context, Cost, Figure, Measurement, NotHere
from tests.bench.report import Results
from tests.bench.servers import Durability, Kind, Server
from tests.bench.warming import WARM_UP_SECONDS, warm
from tests.peers.starts import await_first_metadata


@dataclass(frozen=True)
class Plan:
    """What is run."""

    kinds: Mapping[str, Kind]
    titles: Mapping[str, str]
    """The two sides of the comparison first, whether they are run or not; then ceilings."""
    figures: Sequence[str]
    durabilities: Sequence[Durability]
    rounds: int
    scale: float
    warm_up_seconds: float = WARM_UP_SECONDS
    json: Path | None = None
    """Where every value goes, after each figure of each server: a long run may be looked at, or stopped."""


def run(plan: Plan) -> tuple[Results, list[str]]:
    """All rounds, or those until SIGINT. What failed is told in words, and left out."""
    results = Results(plan.titles)
    failures: list[str] = []
    try:
        for number in range(1, plan.rounds + 1):
            for durability in plan.durabilities:
                for figure in plan.figures:
                    _one_figure(plan, results, failures, number, durability, figure)
    except KeyboardInterrupt:
        say("stopped: what was measured until now")
    return results, failures


def _one_figure(
    plan: Plan, results: Results, failures: list[str], number: int, durability: Durability, name: str
) -> None:
    # The servers of a pair are measured one right after the other; every other round the other way round.
    for server in list(plan.kinds)[:: 1 if number % 2 else -1]:
        kind, figure = plan.kinds[server], FIGURES[name]
        if kind.ceiling and not figure.ceilings:
            continue
        say(f"round {number}, {durability.value}, {server}: {name}")
        try:
            _one_life(plan, results, number, durability, server, figure)
        except NotHere as reason:
            say(f"    not here: {reason}")
        except Exception as failure:  # noqa: BLE001 - the other figures of a long run are not lost with it
            say(traceback.format_exc())
            failures.append(f"round {number}, {durability.value}, {server}, {name}: {failure}")
        if plan.json is not None:
            plan.json.write_text(json.dumps(results.as_json(), indent=1) + "\n")


def _one_life(
    plan: Plan, results: Results, number: int, durability: Durability, name: str, figure: Figure
) -> None:
    kind = plan.kinds[name]
    with kind.make(durability) as server:
        took = 0.0 if kind.ceiling else await_first_metadata(server)
        context = Context(server, kind, durability, took, plan.scale, plan.warm_up_seconds)
        if figure.warm and not kind.ceiling:
            warm(context)
        for measurement in figure.measure(context):
            value = f"{measurement.value:.4g} {measurement.unit}"
            say(f"    {measurement.metric}: {value}{_cost(measurement.cost)}")
            results.add(durability, name, number, _with_peak(measurement, server))


def _with_peak(measurement: Measurement, server: Server) -> Measurement:
    """With the server's own, where the figure has not said that of another one."""
    return replace(measurement, peak_rss=measurement.peak_rss or server.peak_rss_bytes)


def _cost(cost: Cost | None) -> str:
    if cost is None:
        return ""
    client = "" if cost.client is None else f", client {cost.client:.3g}"
    return f"; server {cost.server:.3g} {cost.unit}{client}"
