"""Which chains the catalog can have, and which say that something of it is lost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.log.recovery.chain_check import what_contradicts
from gateway.log.segment import Segment


def segment(start: int, end: int | None, epoch: int = 0, *, cleaned_to: int = -1, name: str = "") -> Segment:
    opened = Segment(name or f"{start}-{epoch}", epoch, start, ("S",), 1, 0)
    if end is None:
        return opened
    return replace(opened.closed(end, 0, 0), cleaned_to=cleaned_to)


def record(next_epoch: int = 1, log_start: int = 0, **more: Any) -> dict[str, Any]:
    return {"next_epoch": next_epoch, "epochs": [], "log_start": log_start, **more}


@pytest.mark.parametrize(
    ("chain", "known"),
    [
        ([], None),
        ([], record(3, 70)),
        ([segment(0, None)], record()),
        ([segment(0, 10), segment(10, 20), segment(20, None)], record()),
        ([segment(0, 10), segment(10, 20, 2), segment(20, 30, 3)], record(5)),
        ([segment(0, 20, 4, cleaned_to=20), segment(20, 30, 1), segment(30, None, 4)], record(5)),
        ([segment(0, 10, 4, cleaned_to=0), segment(10, 20, 4, cleaned_to=0), segment(20, 30, 1)], record(5)),
        ([segment(40, 50), segment(50, 60)], record(1, 40)),
        ([segment(40, 50), segment(50, 60)], record(1, 45)),
        ([segment(40, 50), segment(50, 60)], record(1, 60)),
        ([segment(40, 50), segment(50, None)], record(1, 57)),
        # a segment that was being opened when its partition failed
        ([segment(0, 10), segment(10, None, 1), segment(10, None, 2)], record(3)),
        ([segment(0, 10), segment(10, None, 1), segment(10, 20, 2), segment(20, None, 2)], record(3)),
        ([segment(0, 10), segment(10, 20, 1), segment(10, None, 1, name="Z"), segment(20, 30, 1)], record(3)),
        # an accepted loss: less was left than had been deleted
        ([segment(0, 10)], record(1, 15, end=15)),
        ([segment(0, 10)], record(1, 4, end=10)),
        ([], record(1, 15, end=15)),
        ([segment(0, 10), segment(15, 20, 1)], record(2, 15)),
        ([segment(0, 10), segment(15, 20, 1)], record(2, 18)),
    ],
)
def test_what_a_healthy_catalog_has(chain: list[Segment], known: dict[str, Any] | None) -> None:
    assert what_contradicts(chain, known) == ""


@pytest.mark.parametrize(
    ("chain", "known", "wrong"),
    [
        ([segment(0, 10)], None, "nothing else is known of the partition"),
        (
            [segment(0, 10), segment(20, 30)],
            record(),
            "0-0 ends at offset 10, and the next one, 20-0",
        ),
        ([segment(0, 10), segment(20, None)], record(), "begins at 20"),
        ([segment(0, 10), segment(20, 30)], record(1, 19), "begins at 20"),
        ([segment(0, 20), segment(10, 30, 1)], record(2), "ends at offset 20"),
        ([segment(0, 10), segment(0, 20, 1, name="Z")], record(2), "ends at offset 10"),
        ([segment(10, 20)], record(), "its log starts at offset 0, and its first segment at 10"),
        ([segment(10, None)], record(1, 9), "its log starts at offset 9"),
        ([segment(0, 10)], record(1, 11), "its last segment ends at 10"),
        ([segment(0, 10)], record(1, 16, end=15), "its last segment ends at 10"),
        ([segment(0, 10)], record(1, 5, end=20), "its log ended at offset 20 before"),
        ([], record(1, 5, end=20), "its log ended at offset 20 before"),
        ([segment(0, None), segment(10, 20, 1)], record(2), "segment 0-0 has no end"),
        ([segment(0, 10, 2), segment(10, 20, 1)], record(3), "follows segment 0-2 of epoch 2"),
        ([segment(0, 10, 1)], record(1), "has leader epoch 1, and all of its log are below 1"),
    ],
)
def test_what_a_lost_row_leaves(chain: list[Segment], known: dict[str, Any] | None, wrong: str) -> None:
    assert wrong in what_contradicts(chain, known)
