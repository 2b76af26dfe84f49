"""`make mutants PART=2/4 ONLY=name`: each mutation of the table is planted in a copy, and its checks fail."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from tests.mutants.copy_of_tree import FAILED, PASSED, CopyOfTree, copy_of_tree
from tests.mutants.mutant import Mutant
from tests.mutants.table import MUTANTS


def main() -> int:
    """The exit code: 1 if a mutation survived."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument(
        "--only", action="append", default=[], metavar="NAME", help="this one; again for more"
    )
    parser.add_argument("--part", default="1/1", metavar="K/N", help="every n-th one, from the k-th on")
    parser.add_argument("--list", action="store_true", help="say what there is, and do nothing")
    parser.add_argument("--output", action="store_true", help="show what the checks said")
    arguments = parser.parse_args()
    chosen = part_of(
        [one for one in MUTANTS if one.name in arguments.only or not arguments.only], arguments.part
    )
    if unknown := set(arguments.only) - {one.name for one in MUTANTS}:
        parser.error(f"there is no {', '.join(sorted(unknown))}")
    if arguments.list:
        for mutant in chosen:
            print(f"{mutant.name}  ({mutant.file})\n    {mutant.lost}")
        return 0
    with copy_of_tree() as tree:
        return _run(tree, chosen, output=arguments.output)


def part_of(mutants: Sequence[Mutant], part: str) -> list[Mutant]:
    """Part "2/4" of them: neighbours go to different parts, as they take about as long."""
    number, _, parts = part.partition("/")
    return list(mutants[int(number) - 1 :: int(parts)])


def _run(tree: CopyOfTree, mutants: Sequence[Mutant], *, output: bool) -> int:
    if not tree.imports_itself():
        print("a process in the copy does not import the copy's packages")
        return 1
    started = time.monotonic()
    code, said = tree.test(sorted({check for mutant in mutants for check in mutant.checks}))
    print(f"without a mutation the checks take {time.monotonic() - started:.1f} s", flush=True)
    if code != PASSED:
        print(f"{said}\nand fail: nothing can be learnt from them")
        return 1
    survived = [mutant.name for mutant in mutants if not _is_killed(tree, mutant, output=output)]
    took = time.monotonic() - started
    print(f"{len(mutants)} mutations in {took:.0f} s, {len(survived)} survived: {', '.join(survived) or '-'}")
    return 1 if survived else 0


def _is_killed(tree: CopyOfTree, mutant: Mutant, *, output: bool) -> bool:
    """Whether each of its checks fails."""
    killed = True
    with tree.mutated(mutant):
        for check in mutant.checks:
            started = time.monotonic()
            code, said = tree.test([check])
            took = time.monotonic() - started
            print(f"{_verdict(code)}  {took:5.1f} s  {mutant.name}  {check}", flush=True)
            if output or code not in {PASSED, FAILED}:
                print(said, flush=True)
            killed = killed and code == FAILED
    return killed


def _verdict(code: int | None) -> str:
    if code == FAILED:
        return "killed  "
    return "SURVIVED" if code == PASSED else "BROKEN  "


if __name__ == "__main__":
    sys.exit(main())
