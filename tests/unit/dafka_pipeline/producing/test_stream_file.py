"""When a tail is final, and what a stream keeps."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dafka_pipeline.failures import Refused
from dafka_pipeline.kafka.cluster import TopicPartition
from dafka_pipeline.producing.plan import Timing
from dafka_pipeline.producing.stream_file import Lease, Stream, Tail, Target, final_after, parse_stream

TIMING = Timing(lease=90, message=30, clocks=2)
STREAM = Stream("s", "h", transactions=False, append=False, targets={"t": Target("id", (0, 5))})


def leased(**lease: object) -> Stream:
    return STREAM.leased(replace(Lease("driver", 1000.0, False, ""), **lease))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("stream", "wait"),
    [
        (STREAM, 0),
        (leased(clean=True), 0),
        (replace(leased(), transactions=True), 0),
        # On other machines: until the lease is over, and what was sent last has arrived.
        (leased(until=1060.0), 92),
        (leased(until=1000.0), 32),
        (leased(until=990.0), 22),
        (leased(until=968.0), 0),
        # All of it died with its driver.
        (leased(until=1060.0, machine="here"), 32),
        (leased(until=990.0, machine="here"), 22),
        (leased(until=1060.0, machine="there"), 92),
        # Its driver is we: its tasks may live.
        (leased(until=1060.0, machine="here", owner="me"), 92),
    ],
)
def test_how_long_until_the_tail_is_final(stream: Stream, wait: float) -> None:
    assert final_after(stream, TIMING, 1000.0, "here", "me") == wait


def test_the_file_comes_back_as_it_was() -> None:
    stream = leased(machine="m").ended({TopicPartition("t", 1): Tail((7, 0, 3), 12)})
    assert parse_stream(stream.to_json()) == stream
    assert stream.lease.clean
    assert stream.floor(TopicPartition("t", 1)) == 5


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"dafka_stream": 2}', '{"dafka_stream": 1}'])
def test_another_file_is_refused(text: str) -> None:
    with pytest.raises(Refused, match="cannot be read"):
        parse_stream(text)
