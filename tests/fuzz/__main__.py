"""`make fuzz COUNT=1000000 SEED=s`: malformed input for everything that somebody sends before he is known.

TLS hellos, handshakes and records; the messages of each SASL mechanism; JSON Web Tokens, as forgers and as
odd providers make them, and sets of keys; frames of who is not known; requests about ACLs and delegation
tokens; certificates and the rules by which they name somebody. All of it runs in this process, through the
code that serves clients. Of each input: nothing is raised but what says that it is malformed or refused;
nobody comes in who has not shown a right password, token or certificate; it is not slow. Of all of them:
memory does not grow.

Exit code 1 if one of these does not hold. The inputs are printed, and in files of `--keep`; `--input FILE`
gives one of them to the target of `--only` again.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import logging
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tests.fuzz import guided

SHARES: Final[Mapping[str, int]] = {
    "tls": 15,
    "plain": 10,
    "scram-sha-256": 10,
    "scram-sha-512": 10,
    "oauthbearer": 10,
    "jwt": 15,
    "jwks": 3,
    "sasl-frames": 10,
    "acl-filters": 7,
    "delegation-tokens": 5,
    "principal-rules": 5,
}
"""Of a hundred inputs."""

SHOWN: Final = 4
"""Of what became of inputs, how much is printed."""

HEAD: Final = (
    f"{'target':<18} {'inputs':>8} {'cpu s':>7} {'us each':>8} {'slowest ms':>10} {'MiB more':>8}  became"
)


def line(outcome: Any) -> str:
    """A row of the table."""
    became = ", ".join(f"{what} {count}" for what, count in outcome.became.most_common(SHOWN))
    rest = len(outcome.became) - SHOWN
    more = f", {rest} more kinds" if rest > 0 else ""
    each = 1e6 * outcome.seconds / max(1, outcome.count)
    return (
        f"{outcome.name:<18} {outcome.count:>8} {outcome.seconds:>7.1f} {each:>8.0f} "
        f"{outcome.slowest * 1000:>10.2f} {outcome.grown / (1 << 20):>8.1f}  {became}{more}"
    )


def run(names: Sequence[str], count: int, seed: int, keep: Path | None) -> int:
    """The exit code."""
    # As late as that: who is guided by atheris imports them otherwise.
    campaign = importlib.import_module("tests.fuzz.campaign")
    targets = importlib.import_module("tests.fuzz.targets")
    of_all = sum(SHARES[name] for name in names)
    total = problems = 0
    print(HEAD, flush=True)
    for name in names:
        with targets.TARGETS[name]() as target:
            outcome = campaign.run(target, count * SHARES[name] // of_all, seed)
        print(line(outcome), flush=True)
        total += outcome.count
        problems += len(outcome.problems)
        for problem in outcome.problems:
            print(f"  {problem.what}  {problem.data[:200]!r}")
            if keep is not None:
                keep.mkdir(parents=True, exist_ok=True)
                (keep / f"{name}-{hashlib.sha256(problem.data).hexdigest()[:12]}").write_bytes(problem.data)
    print(f"{total} inputs of seed {seed}: {problems} problems")
    return 1 if problems else 0


def give_again(name: str, path: Path) -> int:
    """The exit code: one input, as it raises what it raises."""
    targets = importlib.import_module("tests.fuzz.targets")
    with targets.TARGETS[name]() as target:
        print(target.check(path.read_bytes()))
    return 0


def main() -> int:
    """See the module."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__, formatter_class=raw)
    parser.add_argument("--count", type=int, default=100_000, help="inputs of all targets together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", action="append", default=[], choices=sorted(SHARES), help="these targets")
    parser.add_argument("--keep", type=Path, help="a folder for inputs with which something is wrong")
    parser.add_argument("--input", type=Path, help="give one input to the one target of --only")
    parser.add_argument(
        "--guided",
        type=int,
        metavar="SECONDS",
        help="look for inputs of one target by what code they reach, by atheris",
    )
    arguments = parser.parse_args()
    names = arguments.only or list(SHARES)
    if (arguments.input or arguments.guided) and len(names) != 1:
        parser.error("--input and --guided want one --only")
    if arguments.guided:
        guided.run(names[0], arguments.guided, arguments.seed)
    logging.disable(logging.WARNING)
    if arguments.input:
        return give_again(names[0], arguments.input)
    return run(names, arguments.count, arguments.seed, arguments.keep)


if __name__ == "__main__":
    sys.exit(main())
