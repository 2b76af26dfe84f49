"""Who only looks must not end what it looks at. What it finds: tests/in_process/test_survey.py."""

from __future__ import annotations

from unittest.mock import MagicMock

import pytest
import trio
from trio.testing import MockClock

from dafka.processes.survey import ROUND_SECONDS, Findings, Survey


def test_a_look_that_fails_is_logged_and_the_next_one_works(caplog: pytest.LogCaptureFixture) -> None:
    broker = MagicMock()
    broker.topics.all.side_effect = [RuntimeError("a defect"), [], []]
    broker.groups.loaded.return_value = []
    survey = Survey(broker)
    before = survey.found

    async def body() -> None:
        with trio.move_on_after(ROUND_SECONDS * 1.5):
            await survey.run()

    trio.run(body, clock=MockClock(autojump_threshold=0))
    assert [record.exc_info is not None for record in caplog.records] == [True]
    assert survey.found is not before
    assert survey.found == Findings()
