"""The command line of the benchmark; see the package."""

from __future__ import annotations

import argparse
import signal
import sys
from importlib.util import find_spec
from pathlib import Path

from tests.bench.facts import commit, machine, versions
from tests.bench.figures import FIGURES
from tests.bench.report import Results
from tests.bench.runner import Plan, run
from tests.bench.servers import SERVERS, Durability
from tests.bench.warming import WARM_UP_SECONDS


def main() -> None:
    arguments = parse()
    # An end from outside still ends the servers: the default for SIGTERM is to leave at once.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    plan = Plan(
        kinds={name: kind for name, kind in SERVERS.items() if name in arguments.servers},
        titles={name: kind.title for name, kind in SERVERS.items()},
        figures=selected(arguments.figures),
        durabilities=[Durability(name) for name in arguments.durability],
        rounds=arguments.rounds,
        scale=arguments.scale,
        warm_up_seconds=arguments.warm_up,
        json=arguments.json,
    )
    if arguments.plots is not None and find_spec("matplotlib") is None:
        sys.exit("matplotlib is not installed: `make test` brings it")  # before hours of measuring
    results, failures = run(plan)
    print(report(plan, results))
    if arguments.plots is not None:
        from tests.bench.curves import draw

        for path in draw(results, plan.titles, f"commit {commit()}", arguments.plots):
            print(f"\n{path}")
    end(failures)


def report(plan: Plan, results: Results) -> str:
    """Everything that is printed of a run that compares with Apache Kafka."""
    parts = [facts(plan), results.table()]
    if ceilings := results.ceilings():
        parts += ["What is left where a server does next to nothing:", ceilings]
    parts += ["What is aimed at:", results.goals()]
    return "\n" + "\n\n".join(parts)


def facts(plan: Plan) -> str:
    """Where and how it was measured."""
    lines = [
        f"{machine()}.",
        f"{versions()}; commit {commit()}.",
        f"Medians of {plan.rounds} rounds (least-most), ratios pair by pair; scale {plan.scale:g}.",
        f"Each life of a server is warmed by {plan.warm_up_seconds:g} s of its own processor time.",
    ]
    for durability in plan.durabilities:
        told = [f"{kind.title}: {kind.told[durability]}" for kind in plan.kinds.values() if not kind.ceiling]
        lines.append(f"{durability.value}: {'; '.join(told)}.")
    return "\n".join(lines)


def end(failures: list[str]) -> None:
    """Exit with what failed, if anything did."""
    if failures:
        sys.exit("\n".join(["", "What failed:", *failures]))


def selected(prefixes: list[str]) -> list[str]:
    """The figures whose names begin with one of the prefixes, in the order of a run; no prefix: all but those
    that are measured by name alone.
    """
    unknown = [prefix for prefix in prefixes if not any(name.startswith(prefix) for name in FIGURES)]
    if unknown:
        raise SystemExit(f"no figure begins with {', '.join(unknown)}; there are: {', '.join(FIGURES)}")
    if not prefixes:
        return [name for name, figure in FIGURES.items() if not figure.by_name]
    return [name for name in FIGURES if name.startswith(tuple(prefixes))]


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("figures", nargs="*", help=f"names or beginnings of: {', '.join(FIGURES)}")
    parser.add_argument("--servers", nargs="+", choices=list(SERVERS), default=["kafka", "dafka"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--plots", type=Path, help="draw what grows into this folder, as PNG")
    add_amounts(parser, scale=1.0, warm_up=WARM_UP_SECONDS)
    return parser.parse_args()


def add_amounts(parser: argparse.ArgumentParser, scale: float, warm_up: float) -> None:
    """Options that every command of this package has."""
    parser.add_argument("--scale", type=float, default=scale, help="share of each figure's amount and time")
    parser.add_argument(
        "--warm-up",
        type=float,
        default=warm_up,
        metavar="SECONDS",
        help="processor time of each life of a server before it is measured; a JVM needs it at any scale",
    )
    parser.add_argument("--json", type=Path, help="write every round's values there")
    names = [one.value for one in Durability]
    parser.add_argument("--durability", nargs="+", choices=names, default=names)


if __name__ == "__main__":
    main()
