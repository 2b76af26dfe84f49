"""docs/constants.md from the code: every named number that has words of its own.

`python -m tests.docs.constants_page` writes the page; a test compares it with what is there.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "constants.md"
PACKAGES: Final = ("dafka", "gateway", "mesh", "wireproto")

HEAD: Final = """# Constants

Every documented number in the code: bounds, waits, sizes, versions. The page is made from the code
(`python -m tests.docs.constants_page`) and a test keeps them equal. What protects a gateway or a store, from
what, and what is then seen, is in [limits.md](limits.md); what can be set is in
[configuration.md](configuration.md).
"""

COMMENT: Final = "#:"
"""How another style documents what follows. The code has one style, a docstring below; a test says so."""


@dataclass(frozen=True)
class Constant:
    """A number with a name. `written` is its value as the code has it, `text` its words, "" for none."""

    name: str
    value: float
    written: str
    text: str

    def row(self) -> str:
        """Its line of the table."""
        text = self.text.replace("``", "`").replace("|", "\\|")
        return f"| `{self.name}` | `{self.written}` | {text} |"


def constants(source: str, values: dict[str, object]) -> list[Constant]:
    """The numbers that a module's `source` names on its top level; `values` are the module's own.

    Words stand below a constant, as a docstring, or above it, behind `#:`. Constants on neighbouring lines
    share the docstring below the last of them.
    """
    body = ast.parse(source).body
    lines = source.split("\n")
    found: list[Constant] = []
    run: list[tuple[str, float, str]] = []
    end = 0
    for statement in body:
        if run and _is_text(statement):
            found += [Constant(*one, _words(ast.literal_eval(statement.value))) for one in run]  # type: ignore[attr-defined]
            run = []
            continue
        named = _number(statement, values)
        above = _above(lines, statement.lineno)
        if run and (named is None or above or statement.lineno > end + 1):
            found += [Constant(*one, "") for one in run]
            run = []
        if named is not None and above:
            found.append(Constant(*named, above))
        elif named is not None:
            run.append(named)
            end = statement.end_lineno or 0
    return found + [Constant(*one, "") for one in run]


def _number(statement: ast.stmt, values: dict[str, object]) -> tuple[str, float, str] | None:
    """(name, value, value as written) where `statement` names a number."""
    if isinstance(statement, ast.Assign):
        target, value = statement.targets[0], statement.value
    elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
        target, value = statement.target, statement.value
    else:
        return None
    if not isinstance(target, ast.Name) or not target.id.isupper():
        return None
    number = values.get(target.id)
    if not isinstance(number, int | float) or isinstance(number, bool):
        return None
    computed = any(isinstance(node, ast.Call | ast.Attribute) for node in ast.walk(value))
    return target.id, number, str(number) if computed else ast.unparse(value)


def _is_text(statement: ast.stmt) -> bool:
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def _above(lines: list[str], number: int) -> str:
    """The words behind `#:` above line `number` (from 1)."""
    words: list[str] = []
    for line in reversed(lines[: number - 1]):
        if not line.startswith(COMMENT):
            break
        words.insert(0, line.removeprefix(COMMENT))
    return _words(" ".join(words))


def _words(text: str) -> str:
    return " ".join(text.split())


def modules() -> Iterator[tuple[Path, list[Constant]]]:
    """Every module that names numbers, with them."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            if path.stem == "__main__":
                continue
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            if found := constants(path.read_text(), vars(import_module(name))):
                yield path.relative_to(ROOT), found


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    for path, found in modules():
        if rows := [one.row() for one in found if one.text]:
            table = ["| constant | value | what it is, and why |", "|---|---|---|", *rows]
            parts.append(f"## `{path}`\n\n" + "\n".join(table) + "\n")
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page())
