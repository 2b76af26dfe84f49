"""ApiVersions 0-4, and what is answered to versions that do not exist (KIP-511)."""

from __future__ import annotations

import struct
from typing import Any

from kafka.protocol.metadata import ApiVersionsRequest

from tests.differential.case import REGISTERED, case
from tests.differential.side import Side
from tests.differential.wire import CLIENT_ID, frame

KEY = 18
WITH_SOFTWARE = range(3, 5)


def only_ours(answer: Any) -> None:
    """What is compared: the ranges of the APIs that this project has. Kafka has others besides."""
    answer.api_keys = [entry for entry in answer.api_keys if entry.api_key in REGISTERED]


@case(ApiVersionsRequest)
def good(side: Side, version: int) -> None:
    only_ours(
        side.ask(
            ApiVersionsRequest(
                version=version, client_software_name="differential", client_software_version="1.0"
            )
        )
    )


@case(ApiVersionsRequest, WITH_SOFTWARE)
def software_names(side: Side, version: int) -> None:
    for label, name, release in [
        ("empty name", "", "1"),
        ("empty version", "a", ""),
        ("space", "a b", "1"),
        ("leading dot", ".a", "1"),
        ("trailing dash", "a-", "1"),
        ("one letter", "a", "1"),
        ("dots and dashes", "a.b-c", "1.0-rc.1"),
    ]:
        only_ours(
            side.ask(
                ApiVersionsRequest(
                    version=version, client_software_name=name, client_software_version=release
                ),
                label,
            )
        )


@case(ApiVersionsRequest, [0])
def unknown_versions(side: Side, version: int) -> None:
    """A v0 body with error 35, so that the client can ask again; the header may have any form."""
    for unknown in [5, 99, 32767, version - 1]:
        for label, tail in {"flexible": b"\0\5rdk\0\0", "bare": b""}.items():
            head = struct.pack(">hhih", KEY, unknown, 1, len(CLIENT_ID)) + CLIENT_ID.encode()
            answer = side.ask_bytes(KEY, 0, frame(head + tail), f"v{unknown} {label}")
            if not isinstance(answer, str):
                only_ours(answer)


@case(ApiVersionsRequest)
def not_first(side: Side, version: int) -> None:
    """Clients may ask again on the same connection."""
    for n in range(2):
        only_ours(
            side.ask(
                ApiVersionsRequest(version=version, client_software_name="a", client_software_version="1"),
                f"time {n}",
            )
        )
