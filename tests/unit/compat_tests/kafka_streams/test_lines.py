"""What the scenarios of Streams send, and what must come out of it."""

from __future__ import annotations

from frameworks.side import Record
from kafka_streams.lines import Lines, latest, number


def test_what_must_come_out_of_lines() -> None:
    lines = Lines()
    made = [*lines.more(150), *lines.more(50)]
    words = [word for record in made for word in (record.value or b"").decode().split()]
    assert len({record.key for record in made}) == 200
    assert lines.counts().total() == lines.windows().total() == len(words)
    assert lines.counts()[words[0]] == words.count(words[0])
    starts = {int(window.split("@")[1]) for window in lines.windows()}
    assert len(starts) > 1
    assert all(start % 10_000 == 0 for start in starts)
    places = lines.places()[words[0]].split(",")
    assert places[0] == f"{words[0]}@line000000"
    assert len(places) == sum(words[0].encode() in (record.value or b"").split() for record in made)


def test_latest_value_of_each_key() -> None:
    records = [Record(b"a", b"1"), Record(b"b", b"2"), Record(b"a", b"3")]
    assert latest(records) == {"a": b"3", "b": b"2"}
    assert number((-5).to_bytes(8, "big", signed=True)) == -5
