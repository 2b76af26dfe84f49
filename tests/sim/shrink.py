"""Makes a failing schedule smaller: leaves out faults, many at once and then fewer, while it still fails.

First the cluster and its work are made smaller, as far as that fails as well; then delta debugging (Zeller's
ddmin), over the faults of the plan and the fates of single messages. The smaller schedule must break the same
promise: its text is the same but for the names and numbers in it.
"""

from __future__ import annotations

import re
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from tests.sim import cluster
from tests.sim.loop import BrokenPromise
from tests.sim.plan import MANY_PRODUCERS, MANY_ROWS, Plan

LARGE_SEGMENT_BYTES = 1 << 30
MAX_RUNS = 400
"""Schedules that are run to shrink one."""

MAX_SECONDS = 180.0
"""What that may take: what is left then is shown."""


def shrink(plan: Plan, run: Callable[[Plan], cluster.Outcome] = cluster.run) -> cluster.Outcome:
    """The smallest failing schedule that was found from this failing one."""
    began = time.monotonic()
    smallest = run(plan)
    if smallest.failure is None:
        raise ValueError(f"the schedule of seed {plan.seed} does not fail")
    wanted = kind(smallest)
    smallest, runs = _simplify(smallest, wanted, run)
    pieces = 2
    candidates = _present(smallest)
    while candidates and runs < MAX_RUNS and time.monotonic() < began + MAX_SECONDS:
        size = max(1, len(candidates) // pieces)
        for start in range(0, len(candidates), size):
            outcome = run(smallest.plan.without(frozenset(candidates[start : start + size])))
            runs += 1
            if kind(outcome) == wanted:
                smallest = outcome
                candidates = _present(smallest)
                pieces = max(2, pieces - 1)
                break
            if runs >= MAX_RUNS or time.monotonic() >= began + MAX_SECONDS:
                break
        else:
            if size == 1:
                break
            pieces = min(pieces * 2, len(candidates))
    return smallest


def _simplify(
    smallest: cluster.Outcome, wanted: str, run: Callable[[Plan], cluster.Outcome]
) -> tuple[cluster.Outcome, int]:
    """A smaller cluster with less work that fails the same way, and the schedules that it took to find it.

    Each change makes another schedule of the seed, so that some may fail that a larger one of does not: all
    are tried again until none helps.
    """
    runs, helped = 1, True
    while helped and runs < MAX_RUNS // 4:
        helped = False
        for change in _changes(smallest.plan):
            outcome = run(replace(smallest.plan, **change))
            runs += 1
            if kind(outcome) == wanted:
                smallest, helped = outcome, True
                break
    return smallest, runs


def _changes(plan: Plan) -> Iterator[dict[str, Any]]:
    """What may be less in a plan, the most first."""
    for share in ("lost", "late", "doubled"):
        if getattr(plan, share):
            yield {share: 0.0}
    for count in ("topics", "partitions", "clients"):
        if getattr(plan, count) > 1:
            yield {count: 1}
    if plan.producers_kept < MANY_PRODUCERS:
        yield {"producers_kept": MANY_PRODUCERS}
    if plan.rows_in_an_answer < MANY_ROWS:
        yield {"rows_in_an_answer": MANY_ROWS}
    if plan.segment_bytes < LARGE_SEGMENT_BYTES:
        yield {"segment_bytes": LARGE_SEGMENT_BYTES}


def kind(outcome: cluster.Outcome) -> str:
    """Which promise a schedule broke; "" for none."""
    return re.sub(r"b?['\"<].*?['\">]|[0-9A-F]{32}|\d+", "", outcome.text)


def _present(outcome: cluster.Outcome) -> list[str]:
    """The ids of what happened in a schedule and could be left out."""
    return [fault.id for fault in outcome.plan.happening] + outcome.world.network.fates


def as_found(outcome: cluster.Outcome) -> Plan:
    """The plan with nothing in it but what happened."""
    return replace(
        outcome.plan,
        faults=tuple(outcome.plan.happening),
        left_out=frozenset(),
        only_fates=frozenset(outcome.world.network.fates),
    )


def describe(outcome: cluster.Outcome) -> str:
    """A failing schedule for people, with the line that runs it again."""
    plan, world = outcome.plan, outcome.world
    broken = outcome.failure is None or isinstance(outcome.failure, BrokenPromise)
    trace = [] if broken else [line.rstrip() for line in traceback.format_exception(outcome.failure)]
    lines = [
        f"seed {plan.seed}: {outcome.text}",
        f"  {plan.stores} stores, {plan.replication_factor} a segment, min.insync {plan.min_insync_replicas}",
        f"  {plan.topics} topics, {plan.partitions} partitions each, segments of {plan.segment_bytes} bytes",
        f"  {plan.clients} clients",
        f"  failed at {world.loop.now:.3f} s, step {world.loop.steps}, with these faults:",
        *(f"    {fault}" for fault in plan.happening),
        *(f"    {fate}" for fate in world.network.fates),
        *trace,
        f"as a test runs it: {as_found(outcome)}",
    ]
    return "\n".join(lines)
