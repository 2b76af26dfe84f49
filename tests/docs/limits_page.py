"""docs/limits.md from the code: every bound, wait and size that is a named constant, with its own words.

`python -m tests.docs.limits_page` writes the page; a test compares it with what is there.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "limits.md"
PACKAGES = ("dafka", "gateway", "mesh", "wireproto")

WORDS = (
    "MAX",
    "MIN",
    "BYTES",
    "SECONDS",
    "MS",
    "LIMIT",
    "ONCE",
    "COUNT",
    "MESSAGES",
    "ENTRIES",
    "RECORDS",
    "BUFFERS",
)
"""A constant with one of these words in its name, and a documentation text of its own, is a limit."""

HEAD = """# Limits

Every bound, wait and size in the code that is a named constant: what is above it is refused, waits, or is
cut, as the text says. The page is made from the code (`python -m tests.docs.limits_page`) and a test keeps
them equal. What can be set is in [configuration.md](configuration.md).

Linux on x86-64 and arm64 is supported; on macOS it starts.

"""


def constants(module: Path) -> Iterator[tuple[str, str, str]]:
    """(name, value as written, text) of a module's documented limits."""
    body = ast.parse(module.read_text()).body
    for statement, following in zip(body, [*body[1:], None], strict=True):
        target: ast.expr
        if isinstance(statement, ast.Assign):
            (target, value) = statement.targets[0], statement.value
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            (target, value) = statement.target, statement.value
        else:
            continue
        if not isinstance(target, ast.Name) or not set(WORDS) & set(target.id.split("_")):
            continue
        if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
            yield target.id, ast.unparse(value), " ".join(str(following.value.value).split())


def page() -> str:
    """The whole page."""
    lines = [HEAD.rstrip("\n"), ""]
    for package in PACKAGES:
        for module in sorted((ROOT / package).rglob("*.py")):
            rows = [row for row in constants(module) if row[0].isupper() and not row[0].startswith("_")]
            if rows:
                lines += [
                    f"## `{module.relative_to(ROOT)}`",
                    "",
                    "| limit | value | what it bounds, and why |",
                    "|---|---|---|",
                ]
                lines += [
                    f"| `{name}` | `{value}` | {text.replace('|', chr(92) + '|')} |"
                    for name, value, text in rows
                ]
                lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page())
