"""What a target's end says about what a stream has sent to it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dafka_pipeline.failures import Refused
from dafka_pipeline.kafka.cluster import TopicPartition
from dafka_pipeline.producing.checks import check_target
from dafka_pipeline.producing.stream_file import Stream, Tail, Target
from dafka_pipeline.producing.tail import Found

AT = TopicPartition("t", 0)
KNOWN = Tail((3, 7), 99)
NEW = Stream("s", "h", transactions=False, append=False, targets={"t": Target("id", (0,))})
USED = replace(NEW, sent={AT: KNOWN})


@pytest.mark.parametrize(
    ("stream", "found", "tail"),
    [
        (NEW, Found(None, 0, False, 0), None),
        (NEW, Found(Tail((1,), 5), 6, False, 0), Tail((1,), 5)),
        (USED, Found(KNOWN, 100, False, 0), KNOWN),
        # What came after the last round that ended well.
        (USED, Found(Tail((4, 1), 120), 121, False, 50), Tail((4, 1), 120)),
        # The target's retention has taken what was acknowledged, all of it.
        (USED, Found(None, 100, False, 100), KNOWN),
        (replace(USED, append=True), Found(None, 250, True, 180), KNOWN),
    ],
)
def test_where_it_goes_on(stream: Stream, found: Found, tail: Tail | None) -> None:
    assert check_target(stream, AT, found) == tail


@pytest.mark.parametrize(
    ("stream", "found", "says"),
    [
        (USED, Found(None, 0, False, 0), "has lost some"),
        (USED, Found(None, 100, False, 99), "has lost some"),
        (USED, Found(Tail((3, 6), 98), 99, False, 0), "has lost some"),
        (NEW, Found(None, 4, True, 0), "records of others"),
        (USED, Found(None, 250, True, 180), "records of others"),
    ],
)
def test_refused(stream: Stream, found: Found, says: str) -> None:
    with pytest.raises(Refused, match=says):
        check_target(stream, AT, found)
