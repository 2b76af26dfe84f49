"""Config values: strings on the wire, parsed as `org.apache.kafka.common.config.ConfigDef` parses them.

Java's parsers are followed where people could notice: blanks around a value are cut, `TRUE` is a boolean,
`+5` a number, `1_000` and `0x10` are not, `1d` is a double. (A double in hexadecimal form, which Java would
take, is refused.)
"""

from __future__ import annotations

import math
import re
from enum import IntEnum
from typing import Final, TypeAlias

Value: TypeAlias = bool | int | float | str | list[str]


class ConfigType(IntEnum):
    """Kafka's type of a config, by its number in DescribeConfigs (`DescribeConfigsResponse.ConfigType`)."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class InvalidValue(Exception):
    """The value does not fit the config. The message names the config, the value and what is allowed."""


MAX_QUOTED_LENGTH: Final = 200
"""Characters of a client's name or value that go into a message. A message has to fit the protocol's 32767
bytes, and people read it."""


def quoted(text: object) -> str:
    """The text, cut where it becomes too long for a message."""
    whole = str(text)
    return whole if len(whole) <= MAX_QUOTED_LENGTH else whole[:MAX_QUOTED_LENGTH] + "..."


def invalid_value(name: str, value: object, reason: str) -> InvalidValue:
    """The error in Kafka's words (`ConfigException`)."""
    return InvalidValue(f"Invalid value {quoted(value)} for configuration {name}: {reason}")


_JAVA_BLANKS: Final = "".join(map(chr, range(0x21)))
"""What Java's `String.trim` cuts: everything up to and including the space."""

_INTEGER: Final = re.compile(r"[+-]?\d+")  # any script's digits, as Java's parseInt
_DOUBLE: Final = re.compile(
    r"[+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?)", re.ASCII
)
_COMMA: Final = re.compile(r"\s*,\s*", re.ASCII)
_BITS: Final = {ConfigType.SHORT: 16, ConfigType.INT: 32, ConfigType.LONG: 64}

MAX_NUMBER_LENGTH: Final = 400
"""Characters of a number that are looked at; a double of full range written out has 309 digits. Python's
int() takes quadratic time beyond some thousand digits."""


def parse_value(name: str, config_type: ConfigType, text: str) -> Value:
    """The value of config `name` that `text` stands for. Raises :class:`InvalidValue`."""
    trimmed = text.strip(_JAVA_BLANKS)
    if config_type is ConfigType.BOOLEAN:
        lowered = trimmed.lower()
        if lowered not in {"true", "false"}:
            raise invalid_value(name, text, "Expected value to be either true or false")
        return lowered == "true"
    if config_type in _BITS:
        return _parse_integer(name, config_type, text)
    if config_type is ConfigType.DOUBLE:
        if len(trimmed) > MAX_NUMBER_LENGTH or not _DOUBLE.fullmatch(trimmed):
            raise invalid_value(name, text, "Not a number of type DOUBLE")
        return float(trimmed.rstrip("fFdD"))
    if config_type is ConfigType.LIST:
        return _COMMA.split(trimmed) if trimmed else []
    return trimmed


def _parse_integer(name: str, config_type: ConfigType, text: str) -> int:
    limit = 1 << (_BITS[config_type] - 1)
    trimmed = text.strip(_JAVA_BLANKS)
    if len(trimmed) <= MAX_NUMBER_LENGTH and _INTEGER.fullmatch(trimmed):
        number = int(trimmed)
        if -limit <= number < limit:
            return number
    raise invalid_value(name, text, f"Not a number of type {config_type.name}")


def format_value(value: Value) -> str:
    """The text of a value, as Kafka gives it back (`ConfigDef.convertToString`)."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _format_double(value)
    if isinstance(value, list):
        return ",".join(value)
    return str(value)


def _format_double(value: float) -> str:
    """As Java's `Double.toString`: 0.5, 1.0, 1.0E-4, 2.147483647E9, NaN, Infinity."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    from decimal import Decimal  # it is hardly ever wanted

    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    mantissa = "".join(map(str, digits))
    power = int(exponent) + len(mantissa) - 1
    return f"{'-' if sign else ''}{mantissa[0]}.{mantissa[1:] or '0'}E{power}"
