"""Which topic names Kafka allows, and which of them are Kafka's own.

The rules and the words of the messages are those of `org.apache.kafka.common.internals.Topic`: clients show
the message to people, who then look it up.
"""

from __future__ import annotations

import re
from typing import Final

MAX_TOPIC_NAME_LENGTH: Final = 249
"""Characters. Kafka's limit: its log directories are named `<topic>-<partition>`, 255 bytes at most."""

INTERNAL_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""Kafka's internal topics: Metadata marks them so, and consumers of a pattern leave them out."""

CLUSTER_METADATA_TOPIC: Final = "__cluster_metadata"
"""The name of KRaft's metadata log. Nobody may create a topic of this name."""

_ALLOWED: Final = re.compile(r"[a-zA-Z0-9._-]+")


def invalid_topic_name(name: str) -> str | None:
    """Why Kafka refuses this topic name, in one sentence; None for a good name."""
    if not name:
        return "Topic name is invalid: the empty string is not allowed"
    if name in {".", ".."}:
        return f"Topic name is invalid: '{name}' is not allowed"
    if len(name) > MAX_TOPIC_NAME_LENGTH:
        return (
            f"Topic name is invalid: the length of '{name[: MAX_TOPIC_NAME_LENGTH + 1]}' is longer than the "
            f"max allowed length {MAX_TOPIC_NAME_LENGTH}"
        )
    if not _ALLOWED.fullmatch(name):
        return (
            f"Topic name is invalid: '{name}' contains one or more characters other than "
            "ASCII alphanumerics, '.', '_' and '-'"
        )
    return None


def is_internal(name: str) -> bool:
    """Whether this is one of Kafka's internal topics."""
    return name in INTERNAL_TOPICS


def collision_key(name: str) -> str:
    """Topics whose keys are equal may not exist together: in Kafka's metric names a dot is an underscore."""
    return name.replace(".", "_")


def has_collision_characters(name: str) -> bool:
    """Whether the name could collide at all."""
    return "." in name or "_" in name
