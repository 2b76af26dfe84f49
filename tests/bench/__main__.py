"""The command line of the benchmark; see the package."""

import argparse
import json
import os
import platform
import signal
import sys
from pathlib import Path

from tests.bench.figures import FIGURES, await_first_metadata
from tests.bench.measurement import Context
from tests.bench.report import Results
from tests.bench.servers import SERVERS, Durability


def main() -> None:
    arguments = parse()
    # An end from outside still ends the servers: the default for SIGTERM is to leave at once.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    names = selected(arguments.figures)
    results = Results()
    try:
        for number in range(1, arguments.rounds + 1):
            for durability in map(Durability, arguments.durability):
                # Every other round the other way round, against drift of the machine.
                for server in arguments.servers[:: 1 if number % 2 else -1]:
                    say(f"round {number}, {durability.value}, {server}")
                    run(results, server, durability, names, arguments.scale)
    except KeyboardInterrupt:
        say("stopped: what was measured until now")
    print(
        f"\n{machine()}; medians of {arguments.rounds} rounds, scale {arguments.scale:g}\n\n{results.table()}"
    )
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(results.as_json(), indent=1) + "\n")


def run(results: Results, name: str, durability: Durability, figures: list[str], scale: float) -> None:
    """One life of one server, with every figure that was asked for."""
    with SERVERS[name](durability) as server:
        context = Context(server, await_first_metadata(server), scale)
        for figure in figures:
            used = server.cpu_seconds
            for measurement in FIGURES[figure](context):
                say(f"    {measurement.metric}: {measurement.value:.4g} {measurement.unit}")
                results.add(durability, name, measurement)
            say(f"    ({figure}: {server.cpu_seconds - used:.1f} s of processor time in the server)")


def selected(prefixes: list[str]) -> list[str]:
    """The figures whose names begin with one of the prefixes, in the order of a run; no prefix: all."""
    unknown = [prefix for prefix in prefixes if not any(name.startswith(prefix) for name in FIGURES)]
    if unknown:
        raise SystemExit(f"no figure begins with {', '.join(unknown)}; there are: {', '.join(FIGURES)}")
    return [name for name in FIGURES if not prefixes or name.startswith(tuple(prefixes))]


def machine() -> str:
    system = f"{platform.system()} {platform.machine()}"
    return f"{system}, {os.cpu_count()} cores, Python {platform.python_version()}"


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("figures", nargs="*", help=f"names or beginnings of: {', '.join(FIGURES)}")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="share of each figure's records")
    parser.add_argument("--servers", nargs="+", choices=list(SERVERS), default=list(SERVERS))
    parser.add_argument(
        "--durability",
        nargs="+",
        choices=[one.value for one in Durability],
        default=[one.value for one in Durability],
    )
    parser.add_argument("--json", type=Path, help="write every round's values there")
    return parser.parse_args()


if __name__ == "__main__":
    main()
