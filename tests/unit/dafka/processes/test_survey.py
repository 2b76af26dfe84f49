"""Who only looks must not end what it looks at. What it finds: tests/in_process/test_survey.py."""

from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock

import pytest
import trio
from trio.testing import MockClock

from dafka.processes.survey import ROUND_SECONDS, Findings, Survey
from dafka.processes.survey_metrics import register_survey
from gateway.common.metrics import Metrics
from gateway.groups.records import CommittedOffset
from gateway.log.chain import SegmentChain
from gateway.log.partition import PartitionState
from gateway.peers.heard import HeardEnds


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


def log(state: PartitionState, end: int = 0) -> Any:
    made = MagicMock(index=0, state=state, high_watermark=end, log_start_offset=0, chain=SegmentChain())
    made.topic.id = bytes(16)
    return made


def test_a_group_has_its_lag_in_what_others_lead_as_far_as_they_have_said_it() -> None:
    heard = HeardEnds(0.0)
    heard.hear_end(30, 0.0)
    own, told, unheard, recovering = (
        log(PartitionState.READY, 10),
        log(PartitionState.ELSEWHERE),
        log(PartitionState.ELSEWHERE),
        log(PartitionState.RECOVERING, 5),
    )
    broker = MagicMock()
    broker.log_ends.of.side_effect = {told: heard, unheard: None}.get
    broker.context.catalog.range.return_value = []
    some = MagicMock(id=bytes(16), partitions=[own, told, unheard, recovering])
    none = MagicMock(id=bytes(16), partitions=[unheard])
    broker.topics.all.return_value = []
    broker.topics.get.side_effect = {"some": some, "none": none}.get
    offsets = {"some": dict.fromkeys(range(4), 4), "none": {0: 7}}
    group = MagicMock(group_id="g")
    group.offsets.topics.return_value = [
        (name, {index: CommittedOffset(at, -1, "", 0) for index, at in each.items()})
        for name, each in offsets.items()
    ]
    group.machine.roster = ()
    broker.groups.loaded.return_value = [group]
    survey, metrics = Survey(broker, by_partition=True), Metrics(with_process=False)
    register_survey(metrics, survey)
    trio.run(survey.look, clock=MockClock())
    found = survey.found
    lag = found.groups["g", "some"]
    assert (lag.records, lag.position, lag.partitions, lag.unknown) == (6 + 26, 16, 2, 2)
    assert [(key, one.records) for key, one in found.partitions] == [
        (("g", "some", "0"), 6),
        (("g", "some", "1"), 26),
    ]
    shown = metrics.text().decode().splitlines()
    about = 'group="g",topic="none"'
    assert f"dafka_group_lag_unknown_partitions{{{about}}} 1.0" in shown
    assert f"dafka_group_position_records{{{about}}} 7.0" in shown
    assert not [line for line in shown if line.startswith("dafka_group_lag_records") and about in line]
