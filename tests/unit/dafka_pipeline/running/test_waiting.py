"""Patience with a Kafka that is away, on a clock that only the waits move."""

from __future__ import annotations

import io
import itertools
import json
import socket
from collections.abc import Callable

import pytest

from dafka_pipeline.failures import KafkaAway, PipelineError, Stopped
from dafka_pipeline.running.report import Report
from dafka_pipeline.running.stopping import Stop
from dafka_pipeline.running.waiting import REMIND_SECONDS, patiently, somebody_listens, waits


class Clock(Stop):
    """A `Stop` whose sleeps only move the time."""

    def __init__(self, stop_at: float | None = None) -> None:
        super().__init__()
        self.now = 1000.0
        self.began = self.now
        self._stop_at = stop_at

    def sleep(self, seconds: float) -> bool:
        assert seconds > 0
        self.now += seconds
        if self._stop_at is not None and self.now - self.began >= self._stop_at:
            self.ask()
        return self.asked

    @property
    def passed(self) -> float:
        return self.now - self.began


class Kafka:
    """Answers from `back_at` on, counted from the clock's begin."""

    def __init__(self, clock: Clock, back_at: float) -> None:
        self.asked_at: list[float] = []
        self._clock = clock
        self._back_at = back_at

    def ask(self) -> str:
        self.asked_at.append(self._clock.passed)
        if self._clock.passed < self._back_at:
            raise KafkaAway("Nobody answers.")
        return "answer"


def told(out: io.StringIO) -> list[str]:
    return [json.loads(line)["event"] for line in out.getvalue().splitlines()]


def report() -> tuple[Report, io.StringIO]:
    out = io.StringIO()
    return Report("test", as_json=True, out=out), out


def test_one_that_answers_is_asked_once_and_nothing_is_told() -> None:
    clock, (voice, out) = Clock(), report()
    kafka = Kafka(clock, back_at=0)
    assert patiently(kafka.ask, clock, voice, 0.0, clock=lambda: clock.now) == "answer"
    assert kafka.asked_at == [0.0]
    assert told(out) == []


def test_it_goes_on_when_kafka_is_back() -> None:
    clock, (voice, out) = Clock(), report()
    kafka = Kafka(clock, back_at=20)
    assert patiently(kafka.ask, clock, voice, None, clock=lambda: clock.now) == "answer"
    assert kafka.asked_at == [0.0, 0.5, 1.5, 3.5, 7.5, 12.5, 17.5, 22.5]
    assert told(out) == ["waiting", "said"]


def test_it_is_said_again_now_and_then() -> None:
    clock, (voice, out) = Clock(), report()
    kafka = Kafka(clock, back_at=3 * REMIND_SECONDS + 30)
    patiently(kafka.ask, clock, voice, None, clock=lambda: clock.now)
    assert told(out) == ["waiting", "waiting", "waiting", "waiting", "said"]


def test_patience_ends_when_it_was_said_to_and_not_later() -> None:
    clock, (voice, out) = Clock(), report()
    kafka = Kafka(clock, back_at=1e9)
    with pytest.raises(KafkaAway, match="Nobody answers"):
        patiently(kafka.ask, clock, voice, 10.0, clock=lambda: clock.now)
    assert clock.passed == 10.0
    assert kafka.asked_at == [0.0, 0.5, 1.5, 3.5, 7.5, 10.0]
    assert told(out) == ["waiting"]


def test_the_end_is_not_waited_for() -> None:
    clock, (voice, _) = Clock(stop_at=2), report()
    kafka = Kafka(clock, back_at=1e9)
    with pytest.raises(Stopped):
        patiently(kafka.ask, clock, voice, None, clock=lambda: clock.now)
    assert kafka.asked_at == [0.0, 0.5, 1.5]


def test_other_failures_come_through_at_once() -> None:
    clock, (voice, out) = Clock(), report()
    failures = iter([KafkaAway("away"), PipelineError("no such topic")])

    def ask() -> None:
        raise next(failures)

    with pytest.raises(PipelineError, match="no such topic"):
        patiently(ask, clock, voice, None, clock=lambda: clock.now)
    assert told(out) == ["waiting"]


def test_a_question_is_asked_again_only_where_somebody_listens() -> None:
    """A question to nobody takes its whole time-out, and the end of the job would wait for it."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        clock, (voice, _) = Clock(), report()
        asked: list[float] = []

        def ask() -> str:
            asked.append(clock.passed)
            if len(asked) == 1:
                away = KafkaAway("away")
                away.bootstrap = f"127.0.0.1:1,{address}"
                raise away
            return "answer"

        def opening(seconds: float, sleep: Callable[[float], bool] = clock.sleep) -> bool:
            if clock.passed > 10:
                listener.listen()
            return sleep(seconds)

        clock.sleep = opening  # type: ignore[method-assign]
        assert patiently(ask, clock, voice, None, clock=lambda: clock.now) == "answer"
        assert asked == [0.0, 17.5]


def test_who_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert somebody_listens(f"127.0.0.1:{port}")
        assert somebody_listens(f"no.such.host.invalid:1, 127.0.0.1:{port}")
    assert not somebody_listens(f"127.0.0.1:{port}")
    assert not somebody_listens("nonsense")


def test_waits_grow_up_to_a_limit() -> None:
    assert list(itertools.islice(waits(), 7)) == [0.5, 1.0, 2.0, 4.0, 5.0, 5.0, 5.0]
