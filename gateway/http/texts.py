"""Values as the JSON of docs/http-api.md has them, and JSON that is written a little at a time."""

from __future__ import annotations

import base64
import json
from typing import Any, Final

from gateway.http.turns import Turns

LARGE_TEXT: Final = 64 * 1024
"""Characters of a text that are written at once: 0.1 ms, or 1 ms if all of them need escapes."""

FEW: Final = 4
MANY: Final = 32
"""Elements of a list, and of an object, from which on each is written at once: they are rows."""

CUTS: Final = (0, 1, 2, 3)
"""Bytes that may be missing from the last character of UTF-8 that is cut."""

_one = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


def shown_bytes(data: bytes | memoryview | None, size: int, *, hidden: bool) -> dict[str, Any] | None:
    """Bytes of a client: `data` is their beginning, `size` how many there are."""
    if data is None:
        return None
    if hidden:
        return {"hidden": True, "bytes": size}
    cut = len(data) < size
    text = _as_text(bytes(data), cut=cut)
    if text is not None:
        return {"text": text, "bytes": size, "cut": cut}
    return {"base64": base64.b64encode(data).decode(), "bytes": size, "cut": cut}


def _as_text(data: bytes, *, cut: bool) -> str | None:
    """UTF-8, up to its last whole character if it is cut; None if it is not."""
    for missing in CUTS if cut else CUTS[:1]:
        try:
            return data[: len(data) - missing].decode()
        except UnicodeDecodeError as error:
            if error.start < len(data) - len(CUTS):
                return None
    return None


async def encoded(value: Any, turns: Turns) -> bytes:
    """JSON of what a route answers, large parts one by one. The caller works (`Turns.working`)."""
    pieces: list[str] = []
    await _write(value, pieces, turns, depth=0)
    await turns.breathe()
    return "".join(pieces).encode() + b"\n"


async def _write(value: Any, pieces: list[str], turns: Turns, depth: int) -> None:
    """Objects and lists are opened up to their third level; what is below is small."""
    if isinstance(value, str) and len(value) > LARGE_TEXT:
        await _write_text(value, pieces, turns)
    elif isinstance(value, dict) and value and depth < 4:
        before = "{"
        for key, part in value.items():
            pieces.append(f"{before}{_one(key)}:")
            await _write(part, pieces, turns, depth + 1 if len(value) < MANY else 4)
            before = ","
        pieces.append("}")
    elif isinstance(value, list) and value and depth < 3:
        before = "["
        for part in value:
            pieces.append(before)
            await _write(part, pieces, turns, depth + 1 if len(value) < FEW else 4)
            before = ","
        pieces.append("]")
    else:
        pieces.append(_one(value))
        await turns.breathe()


async def _write_text(text: str, pieces: list[str], turns: Turns) -> None:
    pieces.append('"')
    for start in range(0, len(text), LARGE_TEXT):
        pieces.append(_one(text[start : start + LARGE_TEXT])[1:-1])
        await turns.breathe()
    pieces.append('"')
