"""The catalog's values about leadership: bytes to what they say, and back. Pure.

Each is JSON with a version, `v`. One of a later version is refused by name: what it says is not known here,
and to guess would be to lead what somebody else leads. Fields that this version does not know are passed
over, so a later release may add some that change nothing for older ones.

Who may write the catalog is trusted with all records of the cluster; still nothing here believes a value that
cannot be: a file that was imported, a disk, or another release may have it wrong.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

from gateway.leadership.slots import SLOTS
from gateway.leadership.table import Leader

VERSION: Final = 1
"""Of all values here."""

MAX_GATEWAY_ID: Final = 999
"""Stores have the ids from 1000 on."""

MAX_EPOCH: Final = 2**31 - 1
"""Kafka's leader epochs have 31 bits."""

MAX_CHANGES: Final = 2**63 - 1
"""Clients are told the number of changes of the features' levels in 64 bits."""

MAX_SMALL_BYTES: Final = 512
"""A value about a slot, a partition or a life: four short fields, and room for what later releases add."""

MAX_GATEWAY_BYTES: Final = 16 * 1024
"""A value about a gateway: its listeners' names and hosts."""

MAX_LISTENERS: Final = 32
"""Listeners of one gateway; each is looked at for each Metadata."""

MAX_FEATURES: Final = 64
"""Features that a gateway names, and features whose levels the catalog has."""

MAX_FEATURES_BYTES: Final = 32 * 1024
"""The value of the levels: their names, and room for what later releases add."""

MAX_LEVEL: Final = 2**15 - 1
"""Kafka's levels of features have 15 bits."""

MAX_NAME_LENGTH: Final = 255
"""Characters of a name, a rack, or a host: DNS allows no longer one."""

_LIFE: Final = re.compile("[0-9A-F]{16}")

Value = TypeVar("Value")


class BadRecord(ValueError):
    """A value of the catalog cannot be what it should be. The text says what is wrong with it."""


class Address(NamedTuple):
    """Where clients reach one listener of a gateway."""

    host: str
    port: int


class GatewayRecord(NamedTuple):
    """What a gateway says of itself when it starts.

    `listeners`: their names -> where clients reach them. `features`: their names -> the lowest and the
    highest level that it can; empty: it is of a release that does not say. `release` is its version, for
    people. `life`: in which of its lives it has said this; "" of a release that does not say.
    """

    name: str
    rack: str
    listeners: Mapping[str, Address]
    features: Mapping[str, tuple[int, int]]
    release: str
    life: str = ""


class FinalizedFeatures(NamedTuple):
    """The levels of features that are in effect, by their names; also of those that only later releases know.

    `epoch` is one more with each change. `release`: of the gateway that has made the last one, for people.
    `rest`: what a later release says besides, as it stands there.
    """

    epoch: int
    levels: Mapping[str, int]
    release: str = ""
    rest: Mapping[str, Any] = {}


class AliveRecord(NamedTuple):
    """What a gateway keeps under its lease while it lives; and once more, as one that is `leaving`, while it
    gives away what it leads.
    """

    life: str
    leaving: bool = False


def pack_slot(leader: Leader) -> bytes:
    """The value of a slot."""
    return _pack(gateway=leader.gateway, life=leader.life, epoch=leader.epoch)


def unpack_slot(value: bytes) -> Leader:
    """Raises BadRecord."""
    return _unpack(value, MAX_SMALL_BYTES, lambda it: Leader(it.gateway(), it.life(), it.epoch()))


def pack_preferred(gateway: int) -> bytes:
    """The value that says which gateway is to lead a partition."""
    return _pack(gateway=gateway)


def unpack_preferred(value: bytes) -> int:
    """Raises BadRecord."""
    return _unpack(value, MAX_SMALL_BYTES, lambda it: it.gateway())


def pack_alive(alive: AliveRecord) -> bytes:
    """The value of a gateway's key under its lease."""
    return _pack(life=alive.life, leaving=alive.leaving)


def unpack_alive(value: bytes) -> AliveRecord:
    """Raises BadRecord."""
    return _unpack(value, MAX_SMALL_BYTES, lambda it: AliveRecord(it.life(), it.flag("leaving")))


def pack_gateway(gateway: GatewayRecord) -> bytes:
    """The value of a gateway. Raises BadRecord: nobody could read it, because of what it was started with."""
    value = _pack(
        name=gateway.name,
        rack=gateway.rack,
        listeners=gateway.listeners,
        features=gateway.features,
        release=gateway.release,
        **({"life": gateway.life} if gateway.life else {}),
    )
    unpack_gateway(value)
    return value


def unpack_gateway(value: bytes) -> GatewayRecord:
    """Raises BadRecord."""
    return _unpack(
        value,
        MAX_GATEWAY_BYTES,
        lambda it: GatewayRecord(
            it.name("name"),
            it.name("rack"),
            it.listeners(),
            it.features(),
            it.name("release"),
            it.life() if it.has("life") else "",
        ),
    )


def pack_features(finalized: FinalizedFeatures) -> bytes:
    """The value of the levels. Raises BadRecord: nobody could read it."""
    value = _pack(epoch=finalized.epoch, levels=finalized.levels, release=finalized.release, **finalized.rest)
    unpack_features(value)
    return value


def unpack_features(value: bytes) -> FinalizedFeatures:
    """Raises BadRecord."""
    return _unpack(
        value,
        MAX_FEATURES_BYTES,
        lambda it: FinalizedFeatures(
            it.number("epoch", 0, MAX_CHANGES),
            it.finalized_levels(),
            it.name("release"),
            it.rest("v", "epoch", "levels", "release"),
        ),
    )


def slot_number(text: str) -> int:
    """The slot that the end of a key names: four digits. Raises BadRecord."""
    if len(text) == len(slot_text(0)) and text.isascii() and text.isdigit() and int(text) < SLOTS:
        return int(text)
    raise BadRecord(f"{_shown(text)} names no slot")


def slot_text(slot: int) -> str:
    """A slot as the end of a key, so that keys are in the order of slots."""
    return f"{slot:04d}"


# the fields -------------------------------------------------------------------------------------------------


def _pack(**fields: Any) -> bytes:
    return json.dumps({"v": VERSION, **fields}, separators=(",", ":")).encode()


def _unpack(value: bytes, limit: int, read: "Callable[[_Fields], Value]") -> Value:
    if len(value) > limit:
        raise BadRecord(f"it has {len(value)} bytes, more than {limit}")
    try:
        told = json.loads(value)
    except (ValueError, RecursionError) as error:
        raise BadRecord(f"it is no JSON: {error}") from None
    if not isinstance(told, dict):
        raise BadRecord(f"{_shown(told)} is no JSON object")
    fields = _Fields(told)
    version = fields.number("v", 1, MAX_EPOCH)
    if version != VERSION:
        raise BadRecord(f"a newer release has written it, in version {version}: upgrade this gateway")
    return read(fields)


class _Fields:
    """What a value says. All methods raise BadRecord."""

    def __init__(self, told: Mapping[str, Any]) -> None:
        self._told = told

    def has(self, name: str) -> bool:
        return name in self._told

    def gateway(self) -> int:
        return self.number("gateway", 1, MAX_GATEWAY_ID)

    def epoch(self) -> int:
        return self.number("epoch", 0, MAX_EPOCH)

    def life(self) -> str:
        life = self._field("life", str)
        if not _LIFE.fullmatch(life):
            raise BadRecord(f"life {_shown(life)} is not 16 upper-case hexadecimal characters")
        return life

    def number(self, name: str, lowest: int, highest: int) -> int:
        return _number(self._field(name, int), name, lowest, highest)

    def flag(self, name: str) -> bool:
        return self._field(name, bool)

    def name(self, name: str) -> str:
        return _name(self._field(name, str), name)

    def listeners(self) -> dict[str, Address]:
        listeners = self._some("listeners", MAX_LISTENERS)
        return {_name(name, "a listener"): _address(name, value) for name, value in listeners.items()}

    def features(self) -> dict[str, tuple[int, int]]:
        features = self._some("features", MAX_FEATURES)
        return {_name(name, "a feature"): _levels(name, value) for name, value in features.items()}

    def finalized_levels(self) -> dict[str, int]:
        levels = self._some("levels", MAX_FEATURES)
        return {_name(name, "a feature"): _level(name, value) for name, value in levels.items()}

    def rest(self, *known: str) -> dict[str, Any]:
        return {name: value for name, value in self._told.items() if name not in known}

    def _some(self, name: str, most: int) -> dict[str, Any]:
        """An object of so many entries at most."""
        entries = self._field(name, dict)
        if len(entries) > most:
            raise BadRecord(f"{name} has {len(entries)} entries, more than {most}")
        return entries

    def _field(self, name: str, kind: type[Value]) -> Value:
        value = self._told.get(name)
        if type(value) is not kind:  # a bool is an int otherwise
            raise BadRecord(f"{name} is {_shown(value)}, and should be of type {kind.__name__}")
        return value


def _number(value: int, name: str, lowest: int, highest: int) -> int:
    if not lowest <= value <= highest:
        raise BadRecord(f"{name} is {_shown(value)}, not between {lowest} and {highest}")
    return value


def _name(text: str, what: str) -> str:
    if len(text) > MAX_NAME_LENGTH:
        raise BadRecord(f"{what} has {len(text)} characters, more than {MAX_NAME_LENGTH}")
    if not text.isprintable():
        raise BadRecord(f"{what} has characters that cannot be printed: {_shown(text)}")
    return text


def _pair(name: str, value: Any, first: type, second: type) -> tuple[Any, Any]:
    if type(value) is list and [type(one) for one in value] == [first, second]:
        return value[0], value[1]
    raise BadRecord(f"{name} is {_shown(value)}, and should be {first.__name__} and {second.__name__}")


def _address(name: str, value: Any) -> Address:
    host, port = _pair(name, value, str, int)
    if not host:
        raise BadRecord(f"{name} has no host")
    return Address(_name(host, f"the host of {name}"), _number(port, f"the port of {name}", 1, 65535))


def _levels(name: str, value: Any) -> tuple[int, int]:
    lowest, highest = _pair(name, value, int, int)
    _number(lowest, f"the lowest level of {name}", 0, highest)
    return lowest, _number(highest, f"the highest level of {name}", 0, MAX_LEVEL)


def _level(name: str, value: Any) -> int:
    if type(value) is not int:
        raise BadRecord(f"the level of {_shown(name)} is {_shown(value)}, and should be a number")
    return _number(value, f"the level of {name}", 0, MAX_LEVEL)


def _shown(value: object) -> str:
    """For a message: short, and on one line."""
    text = ascii(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
