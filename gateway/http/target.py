"""A request's target: a path of decoded parts, and parameters. Whatever is sent, it is bounded and it is
text, or it is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final
from urllib.parse import unquote_to_bytes

from gateway.http.failures import MAX_SHOWN, Failure, bad_parameter
from gateway.http.limits import MAX_LIMIT, MAX_TARGET_BYTES, USUAL_LIMIT

MAX_PARTS: Final = 16
"""Parts of a path; routes have eight at most."""

MAX_PARAMETERS: Final = 32
"""Parameters of a request; routes have eight at most."""

MAX_DIGITS: Final = 19
"""Of a number: those of 2**63."""


@dataclass(frozen=True, slots=True)
class Target:
    """`path` as it was sent, its `parts` without percents, and the parameters, each of them once."""

    path: str
    parts: tuple[str, ...]
    parameters: dict[str, str] = field(default_factory=dict)

    def text(self, name: str, usual: str = "") -> str:
        """A parameter's text, or the usual one."""
        return self.parameters.get(name, usual)

    def number(self, name: str, usual: int, low: int, high: int) -> int:
        """A whole number from `low` to `high`. Raises Failure."""
        text = self.parameters.get(name)
        if text is None:
            return usual
        wanted = f"a number from {low} to {high}"
        value = whole_number(text)
        if value is None or not low <= value <= high:
            raise bad_parameter(name, text, wanted)
        return value

    def limit(self, most: int = MAX_LIMIT) -> int:
        """How many rows. Raises Failure."""
        return self.number("limit", min(USUAL_LIMIT, most), 1, most)

    def choice(self, name: str, among: tuple[str, ...]) -> str:
        """One of these, the first of them without the parameter. Raises Failure."""
        text = self.parameters.get(name, among[0])
        if text not in among:
            raise bad_parameter(name, text, f"one of {', '.join(among)}")
        return text

    def only(self, *names: str) -> None:
        """Refuse parameters that the route does not have: a slip would go unnoticed. Raises Failure."""
        for name in self.parameters:
            if name not in names:
                known = ", ".join(names) or "none"
                raise Failure(
                    HTTPStatus.BAD_REQUEST,
                    "bad-parameter",
                    f"there is no parameter {name[:MAX_SHOWN]!r} here",
                    f"Known here: {known}.",
                )


def whole_number(text: str) -> int | None:
    """A number in ASCII digits, 0 to 2**63 - 1; None for anything else."""
    if not 0 < len(text) <= MAX_DIGITS or not (text.isascii() and text.isdigit()):
        return None
    value = int(text)
    return value if value < 1 << 63 else None


def parse_target(raw: bytes) -> Target:
    """The target of a request line. Raises Failure."""
    if len(raw) > MAX_TARGET_BYTES:
        raise Failure(
            HTTPStatus.REQUEST_URI_TOO_LONG,
            "target-too-long",
            f"the target has {len(raw)} bytes, more than {MAX_TARGET_BYTES}",
            "Ask for less at once.",
        )
    path, _, query = raw.partition(b"?")
    if not path.startswith(b"/"):
        raise _refused("the target is no path")
    parts = path[1:].split(b"/")
    if len(parts) > MAX_PARTS:
        raise _refused(f"the path has {len(parts)} parts")
    parameters: dict[str, str] = {}
    for count, pair in enumerate(part for part in query.split(b"&") if part):
        if count >= MAX_PARAMETERS:
            raise _refused("there are too many parameters")
        name, _, value = pair.partition(b"=")
        key = _decoded(name, plus=True)
        if key in parameters:
            raise _refused(f"the parameter {key[:MAX_SHOWN]!r} is there twice")
        parameters[key] = _decoded(value, plus=True)
    return Target(path.decode("latin-1"), tuple(_decoded(part) for part in parts), parameters)


def split_keys(text: str) -> list[str]:
    """Keys with commas between them, each of which is percent-encoded once more. Raises Failure."""
    return [_decoded(part.encode()) for part in text.split(",") if part]


def _decoded(raw: bytes, *, plus: bool = False) -> str:
    if plus:
        raw = raw.replace(b"+", b" ")
    try:
        text = unquote_to_bytes(raw).decode()
    except UnicodeDecodeError:
        raise _refused("the target is not UTF-8 where it is decoded") from None
    if "\0" in text:
        raise _refused("the target has a zero byte")
    return text


def _refused(detail: str) -> Failure:
    return Failure(
        HTTPStatus.BAD_REQUEST, "bad-request", detail, "See docs/http-api.md for what can be asked."
    )
