"""Prometheus' text format, version 0.0.4, as the prometheus_client writes it; a fifth of its time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Protocol

from wireproto.put_off import put_off

put_off("prometheus_client")  # its __init__ imports web servers

from prometheus_client.utils import floatToGoString  # noqa: E402 - after that

_number: Callable[[float], str] = floatToGoString

LINES_A_PIECE = 256
"""Lines that are made before others have their turn: half a millisecond."""


class Buckets(Protocol):
    """A histogram. `cumulative`: (upper bound, how often up to it), +Inf last; `total` of what was seen."""

    total: float

    def cumulative(self) -> list[tuple[str, float]]: ...


def head(name: str, text: str, kind: str) -> str:
    """What comes before the lines of a metric."""
    text = text.replace("\\", r"\\").replace("\n", r"\n")
    return f"# HELP {name} {text}\n# TYPE {name} {kind}\n"


def label_pairs(labels: Sequence[str], values: Sequence[str]) -> str:
    """`a="1",b="2"`, by the labels' names."""
    return ",".join(
        [f'{label}="{_escaped(value)}"' for label, value in sorted(zip(labels, values, strict=True))]
    )


def line(name: str, pairs: str, value: float) -> str:
    """One value; `pairs` are its labels (`label_pairs`), or empty."""
    where = f"{{{pairs}}}" if pairs else ""
    return f"{name}{where} {_number(value)}\n"


def lines(name: str, labels: Sequence[str], values: Iterator[tuple[Sequence[str], float]]) -> Iterator[str]:
    """Values by the values of their labels, so many lines in a piece."""
    while piece := "".join(
        [line(name, label_pairs(labels, of), value) for of, value in islice(values, LINES_A_PIECE)]
    ):
        yield piece


def histogram_lines(name: str, pairs: str, histogram: Buckets) -> str:
    """One histogram; `pairs` are its labels, or empty."""
    before = f"{pairs}," if pairs else ""
    buckets = histogram.cumulative()
    return "".join(
        [
            *(line(f"{name}_bucket", f'{before}le="{bound}"', count) for bound, count in buckets),
            line(f"{name}_count", pairs, buckets[-1][1]),
            line(f"{name}_sum", pairs, histogram.total),
        ]
    )


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
