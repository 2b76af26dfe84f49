"""What a config's value has to satisfy once it is parsed, with Kafka's words for what is wrong.

Each check says in `allowed` what it allows (for the documentation), and gives the checked value back.
Source: `ConfigDef.Range`, `ConfigDef.ValidString`, `ConfigDef.ValidList`, `ThrottledReplicaListValidator` and
`CompressionType.LevelValidator`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final, Protocol

from gateway.common.topic_names import invalid_topic_name
from gateway.configs.values import InvalidValue, Value, format_value, invalid_value


class Check(Protocol):
    """One rule for a parsed value."""

    @property
    def allowed(self) -> str:
        """What is allowed, in a few words."""

    def __call__(self, name: str, value: Value) -> Value:
        """The value, or what it becomes. Raises :class:`InvalidValue`."""


@dataclass(frozen=True, slots=True)
class Between:
    """A number from `low` to `high`; None leaves that side open. `special` is allowed besides."""

    low: float | None = None
    high: float | None = None
    special: float | None = None

    @property
    def allowed(self) -> str:
        if self.special is not None:
            return f"{self.low} to {self.high}, or {self.special}"
        if self.high is None:
            return f"at least {self.low}"
        return f"{self.low} to {self.high}"

    def __call__(self, name: str, value: Value) -> Value:
        assert isinstance(value, (int, float))
        if self.special is not None:
            if value != self.special and not (self.low or 0) <= value <= (self.high or 0):
                reason = f"Value must be between {self.low} and {self.high} or equal to {self.special}"
                raise invalid_value(name, format_value(value), reason)
            return value
        if self.low is not None and value < self.low:
            raise invalid_value(name, format_value(value), f"Value must be at least {self.low}")
        if self.high is not None and value > self.high:
            raise invalid_value(name, format_value(value), f"Value must be no more than {self.high}")
        return value


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of some words, in exactly this spelling."""

    words: tuple[str, ...]

    @property
    def allowed(self) -> str:
        return ", ".join(self.words)

    def __call__(self, name: str, value: Value) -> Value:
        if value not in self.words:
            raise invalid_value(name, value, f"String must be one of: {', '.join(self.words)}")
        return value


@dataclass(frozen=True, slots=True)
class ListOf:
    """Any of some words, or none at all. A word that is there twice counts once."""

    words: tuple[str, ...]

    @property
    def allowed(self) -> str:
        return f"a list of {', '.join(self.words)}; may be empty"

    def __call__(self, name: str, value: Value) -> Value:
        assert isinstance(value, list)
        if "" in value:
            raise InvalidValue(f"Configuration '{name}' values must not be empty.")
        check = OneOf(self.words)
        for word in value:
            check(name, word)
        return list(dict.fromkeys(value))


@dataclass(frozen=True, slots=True)
class AddressCounts:
    """A list of `address:count`; spaces around either do not count. Kafka takes names of hosts besides."""

    allowed: str = "a list of address:count; may be empty"

    def __call__(self, name: str, value: Value) -> Value:
        assert isinstance(value, str)
        parse_address_counts(name, value)
        return value


def parse_address_counts(name: str, text: str) -> dict[str, int]:
    """Counts by address, as it is written. Raises InvalidValue."""
    counts: dict[str, int] = {}
    for pair in _listed(text):
        address, _, count = pair.rpartition(":")
        address, count = address.strip(), count.strip()
        try:
            ip_address(address)
        except ValueError:
            reason = f"write it as ADDRESS:COUNT,... (names of hosts are not taken): {pair[:64]!r} is not so"
            raise invalid_value(name, text, reason) from None
        if not (count.isascii() and count.isdecimal() and int(count[:11]) <= MAX_COUNT):
            raise invalid_value(name, text, f"{count[:16]!r} is no number from 0 to {MAX_COUNT}")
        counts[address] = int(count)
    return counts


MAX_COUNT: Final = 2**31 - 1
"""The most that one of these counts may be: an int of Java."""

MAX_SUBJECT_BYTES: Final = 255
"""Longest subject of the mesh, in UTF-8."""


@dataclass(frozen=True, slots=True)
class NativeSubject:
    """A subject of the mesh, or nothing."""

    allowed: str = f"at most {MAX_SUBJECT_BYTES} bytes of UTF-8, no NUL; may be empty"

    def __call__(self, name: str, value: Value) -> Value:
        assert isinstance(value, str)
        if len(value.encode("utf-8", "replace")) > MAX_SUBJECT_BYTES or "\0" in value:
            raise invalid_value(name, value[:64], f"a subject has {self.allowed}")
        return value


@dataclass(frozen=True, slots=True)
class TopicNames:
    """A list of names of topics, or of beginnings of names with `*` behind; spaces around them do not
    count.
    """

    allowed: str = "a list of topic names, or of beginnings of names with * behind; may be empty"

    def __call__(self, name: str, value: Value) -> Value:
        assert isinstance(value, str)
        for one in _listed(value):
            if reason := invalid_topic_name(one.removesuffix("*") or "x"):
                raise invalid_value(name, value[:64], f"{one[:64]!r} names no topic: {reason}")
        return value


def is_named(topic: str, names: str) -> bool:
    """Whether a topic is one of those that `TopicNames` has let pass."""
    return any(topic.startswith(one[:-1]) if one.endswith("*") else topic == one for one in _listed(names))


def _listed(text: str) -> list[str]:
    return [word for one in text.split(",") if (word := one.strip())]


HASH: Final = "hash"
"""The rule by which native addresses are spread over a topic's partitions."""

_PARTITION: Final = re.compile(r"0|[1-9][0-9]{0,8}", re.ASCII)


@dataclass(frozen=True, slots=True)
class NativePartition:
    """`hash`, or the number of a partition."""

    allowed: str = "hash, or the number of a partition"

    def __call__(self, name: str, value: Value) -> Value:
        assert isinstance(value, str)
        if value != HASH and not _PARTITION.fullmatch(value):
            raise invalid_value(name, value[:64], f"it is {self.allowed}")
        return value


_THROTTLED_REPLICA: Final = re.compile(r"([0-9]+:[0-9]+)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class ThrottledReplicas:
    """`*`, or a list of `partition:broker`."""

    allowed: str = "* or [partitionId]:[brokerId],..."

    def __call__(self, name: str, value: Value) -> Value:
        assert isinstance(value, list)
        words = [word.strip() for word in value]
        if "".join(words) != "*" and not all(map(_THROTTLED_REPLICA.fullmatch, words)):
            reason = (
                f"{name} must be the literal '*' or a list of replicas in the following format: "
                "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
            )
            raise invalid_value(name, f"[{', '.join(words)}]", reason)
        return value
