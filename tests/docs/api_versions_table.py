"""Our ApiVersions beside Apache Kafka's, key by key, with a reason for each gap."""

from __future__ import annotations

from typing import Final

from gateway.front.registry import load_apis
from tests.peers.api_versions import OfferedApi, offered_by_kafka

NEW_GROUPS: Final = "the newer group protocol (KIP-848) is not built; `classic` is every client's default"
SHARE_GROUPS: Final = "no share groups (KIP-932)"
STREAMS_GROUPS: Final = "no streams groups (KIP-1071); Kafka Streams uses classic groups by default"
BETWEEN_BROKERS: Final = "between brokers; no client sends it"
QUORUM: Final = "the catalog is no Raft quorum of brokers: nothing can be added to it or taken out"

REASONS: Final[dict[int, str]] = {
    68: NEW_GROUPS,
    69: NEW_GROUPS,
    76: SHARE_GROUPS,
    77: SHARE_GROUPS,
    78: SHARE_GROUPS,
    79: SHARE_GROUPS,
    80: QUORUM,
    81: QUORUM,
    83: BETWEEN_BROKERS,
    84: BETWEEN_BROKERS,
    85: BETWEEN_BROKERS,
    86: BETWEEN_BROKERS,
    87: BETWEEN_BROKERS,
    88: STREAMS_GROUPS,
    89: STREAMS_GROUPS,
    90: SHARE_GROUPS,
    91: SHARE_GROUPS,
    92: SHARE_GROUPS,
}
"""Why a key of Kafka's is not offered here, or not in all of its versions."""


def our_apis() -> list[OfferedApi]:
    """What a gateway offers, by key."""
    return [OfferedApi(a.key, a.name, a.advertised_min, a.max_version) for a in load_apis().all()]


def table() -> str:
    """Every key that one of the two offers. Raises KeyError for a gap without a reason."""
    kafka = {one.key: one for one in offered_by_kafka()}
    ours = {one.key: one for one in our_apis()}
    rows = [
        f"| {key} | {(kafka.get(key) or ours[key]).name} | {_versions(kafka.get(key))} | "
        f"{_versions(ours.get(key))} | {_reason(key, kafka.get(key), ours.get(key))} |"
        for key in sorted(kafka.keys() | ours.keys())
    ]
    return "\n".join(["| key | API | Kafka 4.3.1 | here | why not |", "|---|---|---|---|---|", *rows])


def needless_reasons() -> list[int]:
    """Keys with a reason and without a gap: the list says only what is true."""
    kafka = {one.key: one for one in offered_by_kafka()}
    ours = {one.key: one for one in our_apis()}
    return [key for key in REASONS if kafka.get(key) == ours.get(key)]


def _versions(api: OfferedApi | None) -> str:
    return api.versions if api else "-"


def _reason(key: int, kafka: OfferedApi | None, ours: OfferedApi | None) -> str:
    return "" if kafka == ours else REASONS[key]
