"""Schedules that are run for their promises: one, many, or one with a crash at each of some steps."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace

from tests.sim import cluster
from tests.sim.plan import Plan
from tests.sim.shrink import describe


def keeps_promises(plan: Plan, world: cluster.World | None = None, where: str = "") -> cluster.Outcome:
    """Run a schedule, which must not fail; `where` is put before the description of one that does."""
    outcome = cluster.run(plan, world)
    assert outcome.failure is None, where + describe(outcome)
    return outcome


def reached_by(
    plans: Iterable[Plan], world_of: Callable[[Plan], cluster.World | None] = lambda _plan: None
) -> Counter[str]:
    """What several schedules, none of which may fail, have reached together; in worlds of these, if given."""
    reached: Counter[str] = Counter()
    for plan in plans:
        reached += keeps_promises(plan, world_of(plan)).world.reached
    return reached


def first_failure(plans: Iterable[Plan]) -> cluster.Outcome | None:
    """The outcome of the first of these schedules that fails; None: none does."""
    outcomes = map(cluster.run, plans)
    return next((outcome for outcome in outcomes if outcome.failure is not None), None)


def survives_crashes(plan: Plan, target: str, steps: Iterable[int]) -> None:
    """Run a schedule again for each step, at which `target` crashes: by turns without and with what it had
    written and not fsynced.
    """
    for number, step in enumerate(steps):
        keep = bool(number % 2)
        crash = replace(plan, crash_at_step=(step, target, keep))
        keeps_promises(crash, where=f"{target} crashed at step {step}, keep {keep}: ")
