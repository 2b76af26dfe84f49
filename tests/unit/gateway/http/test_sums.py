"""What is seen of a partition between two looks."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from gateway.http.sums import PartitionSums, look
from gateway.log.chain import OpenSegment, SegmentChain
from gateway.log.segment import Segment
from mesh.protocol.writer import Writer


class Fake:
    """A partition whose log is appended to and rolled by hand."""

    def __init__(self) -> None:
        self.chain = SegmentChain()
        self.partition: Any = SimpleNamespace(chain=self.chain, next_offset=0)
        self.sums = PartitionSums()
        self._opened = 0

    def open(self) -> None:
        address = f"{self._opened:032x}"
        self._opened += 1
        segment = Segment(address, 0, self.partition.next_offset, ("s",), 1, 0)
        self.chain.begin(OpenSegment(segment, Writer(address, "t", ("s",), 1)))

    def append(self, size: int) -> None:
        current = self.chain.current
        assert current is not None
        current.add(size, 0)
        self.partition.next_offset += 1

    def look(self, now: float) -> tuple[int, float | None, float | None]:
        look(self.partition, self.sums, now)
        return self.sums.bytes, self.sums.records_in, self.sums.bytes_in


def test_rates_are_known_from_the_second_look_on() -> None:
    fake = Fake()
    fake.open()
    fake.append(100)
    assert fake.look(1.0) == (100, None, None)
    fake.append(50)
    assert fake.look(3.0) == (150, 0.5, 25.0)
    assert fake.look(4.0) == (150, 0.0, 0.0)


def test_a_roll_in_between_loses_no_bytes() -> None:
    fake = Fake()
    fake.open()
    fake.append(100)
    fake.look(1.0)
    fake.append(10)
    fake.chain.roll()
    fake.open()
    fake.append(7)
    assert fake.look(2.0) == (117, 2.0, 17.0)
    fake.chain.close_rolling(fake.partition.next_offset, 0)
    fake.append(1)
    assert fake.look(3.0) == (118, 1.0, 1.0)


def test_a_segment_that_was_closed_in_between_counts_with_its_size() -> None:
    fake = Fake()
    fake.open()
    fake.append(100)
    fake.look(1.0)
    fake.append(10)
    fake.chain.roll()
    fake.chain.close_rolling(fake.partition.next_offset, 0)
    assert fake.look(2.0) == (110, 1.0, 10.0)


def test_what_retention_drops_is_no_negative_rate() -> None:
    fake = Fake()
    fake.open()
    fake.append(100)
    fake.chain.roll()
    fake.chain.close_rolling(1, 0)
    fake.look(1.0)
    closed = fake.chain.closed[0]
    fake.chain.drop({closed.address})
    assert fake.look(2.0) == (0, 0.0, 0.0)
