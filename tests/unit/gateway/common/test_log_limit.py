"""Log lines that clients cause are limited, and those that are left out are counted."""

from __future__ import annotations

import logging

import pytest
import trio
from trio.testing import MockClock

from gateway.common import log_limit
from gateway.common.log_limit import LOG_SECONDS, LogLimit, warn_once

logger = logging.getLogger(__name__)


def test_so_many_lines_in_a_while_and_then_how_many_were_left_out(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    clock = MockClock()

    async def main() -> None:
        limit = LogLimit(logger, 2)
        for number in range(5):
            limit.warning("client %d", number)
        clock.jump(LOG_SECONDS)
        limit.info("client %d", 5)

    trio.run(main, clock=clock)
    assert caplog.messages == ["client 0", "client 1", "3 more such lines were left out", "client 5"]


def test_nothing_is_said_of_lines_left_out_where_there_are_none(caplog: pytest.LogCaptureFixture) -> None:
    clock = MockClock()

    async def main() -> None:
        limit = LogLimit(logger, 2)
        for number in range(4):
            limit.warning("client %d", number)
            clock.jump(LOG_SECONDS / 2)

    trio.run(main, clock=clock)
    assert caplog.messages == [f"client {number}" for number in range(4)]


def test_one_line_for_each_message_whatever_its_arguments(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_limit, "_said", set())
    for number in range(3):
        warn_once(logger, "topic %d is strange", number)
    warn_once(logger, "another message")
    assert caplog.messages == ["topic 0 is strange", "another message"]
