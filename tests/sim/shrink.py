"""Makes a failing schedule smaller: leaves out faults, many at once and then fewer, while it still fails.

As delta debugging (Zeller's ddmin), over the faults of the plan and the fates of single messages. The smaller
schedule must break the same promise: its text is the same but for the names and numbers in it.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.sim import cluster
from tests.sim.loop import BrokenPromise

if TYPE_CHECKING:
    from tests.sim.plan import Plan

MAX_RUNS = 400
"""Schedules that are run to shrink one."""


def shrink(plan: Plan, run: Callable[[Plan], cluster.Outcome] = cluster.run) -> cluster.Outcome:
    """The smallest failing schedule that was found from this failing one."""
    smallest = run(plan)
    if smallest.failure is None:
        raise ValueError(f"the schedule of seed {plan.seed} does not fail")
    runs, pieces, wanted = 1, 2, kind(smallest)
    candidates = _present(smallest)
    while candidates and runs < MAX_RUNS:
        size = max(1, len(candidates) // pieces)
        for start in range(0, len(candidates), size):
            outcome = run(smallest.plan.without(frozenset(candidates[start : start + size])))
            runs += 1
            if kind(outcome) == wanted:
                smallest = outcome
                candidates = _present(smallest)
                pieces = max(2, pieces - 1)
                break
            if runs >= MAX_RUNS:
                break
        else:
            if size == 1:
                break
            pieces = min(pieces * 2, len(candidates))
    return smallest


def kind(outcome: cluster.Outcome) -> str:
    """Which promise a schedule broke; "" for none."""
    return re.sub(r"b?['\"<].*?['\">]|[0-9A-F]{32}|\d+", "", outcome.text)


def _present(outcome: cluster.Outcome) -> list[str]:
    """The ids of what happened in a schedule and could be left out."""
    return [fault.id for fault in outcome.plan.happening] + outcome.world.network.fates


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
    ]
    return "\n".join(lines)
