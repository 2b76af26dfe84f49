from __future__ import annotations

import math

import pytest

from gateway.configs.values import ConfigType, InvalidValue, format_value, parse_value


@pytest.mark.parametrize(
    ("config_type", "text", "value", "shown"),
    [
        (ConfigType.BOOLEAN, " TRUE\t", True, "true"),
        (ConfigType.BOOLEAN, "false", False, "false"),
        (ConfigType.INT, " +5 ", 5, "5"),
        (ConfigType.INT, "-2147483648", -2147483648, "-2147483648"),
        (ConfigType.SHORT, "32767", 32767, "32767"),
        (ConfigType.LONG, "9223372036854775807", 9223372036854775807, "9223372036854775807"),
        (ConfigType.DOUBLE, "1e-3", 0.001, "0.001"),
        (ConfigType.DOUBLE, "1d", 1.0, "1.0"),
        (ConfigType.DOUBLE, ".5F", 0.5, "0.5"),
        (ConfigType.DOUBLE, "1e-4", 0.0001, "1.0E-4"),
        (ConfigType.DOUBLE, "2147483647", 2147483647.0, "2.147483647E9"),
        (ConfigType.DOUBLE, "-1e7", -1e7, "-1.0E7"),
        (ConfigType.DOUBLE, "9999999", 9999999.0, "9999999.0"),
        (ConfigType.DOUBLE, "Infinity", math.inf, "Infinity"),
        (ConfigType.DOUBLE, "-Infinity", -math.inf, "-Infinity"),
        (ConfigType.DOUBLE, "1.7976931348623157E308", 1.7976931348623157e308, "1.7976931348623157E308"),
        (ConfigType.LIST, " a , b,c ", ["a", "b", "c"], "a,b,c"),
        (ConfigType.LIST, "a,", ["a", ""], "a,"),
        (ConfigType.LIST, "  ", [], ""),
        (ConfigType.STRING, " zstd ", "zstd", "zstd"),
        (ConfigType.PASSWORD, "x", "x", "x"),
    ],
)
def test_values_are_read_and_shown_as_java_does(
    config_type: ConfigType, text: str, value: object, shown: str
) -> None:
    parsed = parse_value("c", config_type, text)
    assert parsed == value
    assert type(parsed) is type(value)
    assert format_value(parsed) == shown


def test_not_a_number_is_a_double() -> None:
    assert format_value(parse_value("c", ConfigType.DOUBLE, "NaN")) == "NaN"


@pytest.mark.parametrize(
    ("config_type", "text"),
    [
        (ConfigType.BOOLEAN, "yes"),
        (ConfigType.SHORT, "32768"),
        (ConfigType.INT, "2147483648"),
        (ConfigType.LONG, "-9223372036854775809"),
        (ConfigType.INT, "1_000"),
        (ConfigType.INT, "0x10"),
        (ConfigType.INT, ""),
        (ConfigType.INT, "--5"),
        (ConfigType.DOUBLE, "nan"),
        (ConfigType.DOUBLE, "inf"),
        (ConfigType.DOUBLE, "1_0.0"),
        (ConfigType.DOUBLE, "1.0.0"),
        (ConfigType.DOUBLE, "0." + "0" * 1000),
    ],
)
def test_other_texts_are_refused_by_name(config_type: ConfigType, text: str) -> None:
    with pytest.raises(InvalidValue, match=r"^Invalid value .* for configuration some\.config: "):
        parse_value("some.config", config_type, text)
