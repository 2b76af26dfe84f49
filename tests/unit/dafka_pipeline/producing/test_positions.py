"""Position headers, written and read."""

from __future__ import annotations

import pytest

from dafka_pipeline.failures import UsageFailure
from dafka_pipeline.producing.positions import (
    check_stream,
    own_position,
    parse_position,
    position_value,
    prefix_of,
)

PREFIX = prefix_of("r-1")


@pytest.mark.parametrize("position", [(0,), (17,), (-1, 2, 3), (1_700_000_000_000, 12, 9_999_999_999)])
def test_a_position_comes_back(position: tuple[int, ...]) -> None:
    assert parse_position(PREFIX, position_value(PREFIX, position)) == position


@pytest.mark.parametrize("value", [None, b"", b"r-1", b"r-1|", b"r-1|a", b"r-1|1.", b"r-11|1", b"R-1|1"])
def test_another_value_is_none(value: bytes | None) -> None:
    assert parse_position(PREFIX, value) is None


def test_the_last_header_alone_is_the_streams() -> None:
    assert own_position([("h", b"r-1|1"), ("h", b"r-1|2")], "h", PREFIX) == (2,)
    assert own_position([("h", b"r-1|1"), ("x", b"")], "h", PREFIX) is None
    assert own_position([("h", b"other|1")], "h", PREFIX) is None
    assert own_position([], "h", PREFIX) is None
    assert own_position(None, "h", PREFIX) is None


@pytest.mark.parametrize("stream", ["", "a b", "-a", "a|b", "a/b", "ä", "a" * 101])
def test_an_id_that_is_none_is_refused(stream: str) -> None:
    with pytest.raises(UsageFailure, match="is no id"):
        check_stream(stream)
