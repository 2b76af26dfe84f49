"""FindCoordinator 0-6: this server is every group's."""

from __future__ import annotations

from typing import Any

from kafka.protocol.metadata import FindCoordinatorRequest

from tests.differential.case import case
from tests.differential.side import Side

ONE_KEY = range(4)
MANY_KEYS = range(4, 7)
GROUP, TRANSACTION, SHARE = 0, 1, 2


def ask(side: Side, version: int, keys: list[str], key_type: int = GROUP, label: str = "") -> None:
    fields: dict[str, Any] = {"coordinator_keys": keys} if version >= 4 else {"key": keys[0]}
    if version >= 1:
        fields["key_type"] = key_type
    side.ask(FindCoordinatorRequest(version=version, **fields), label)


@case(FindCoordinatorRequest)
def group(side: Side, version: int) -> None:
    ask(side, version, ["some-group"])


@case(FindCoordinatorRequest, MANY_KEYS)
def several(side: Side, version: int) -> None:
    ask(side, version, ["b", "a", "c"], label="three")
    ask(side, version, [], label="none")
    ask(side, version, ["a", "a"], label="one twice")


@case(FindCoordinatorRequest)
def empty_key(side: Side, version: int) -> None:
    ask(side, version, [""])


@case(FindCoordinatorRequest, range(1, 7))
def transaction(side: Side, version: int) -> None:
    ask(side, version, ["tx"], TRANSACTION)


@case(FindCoordinatorRequest, range(1, 7))
def unknown_type(side: Side, version: int) -> None:
    for key_type in [3, 127, -1]:
        ask(side, version, ["x"], key_type, f"type {key_type}")


@case(FindCoordinatorRequest, range(1, 7))
def share_type(side: Side, version: int) -> None:
    """Share groups' coordinator: asked by version 6 only, with keys of a form of its own."""
    ask(side, version, ["group:AAAAAAAAAAAAAAAAAAAAAA:0"], SHARE, "well formed")
    ask(side, version, ["nonsense"], SHARE, "ill formed")
