"""Medians, ratios pair by pair, and the tables of them."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from tests.bench.goals import GOALS, Goal, Of
from tests.bench.measurement import Measurement
from tests.bench.servers import Durability

Key = tuple[Durability, str]


@dataclass(frozen=True)
class Spread:
    """The median of some values, with the least and the greatest."""

    median: float
    least: float
    most: float

    @staticmethod
    def of(values: Iterable[float]) -> Spread | None:
        """None of none."""
        found = list(values)
        return Spread(statistics.median(found), min(found), max(found)) if found else None

    def text(self) -> str:
        """The median, and what it lies between if there is more than one value."""
        if self.least == self.most:
            return number(self.median)
        return f"{number(self.median)} ({number(self.least)}-{number(self.most)})"

    def ratio(self) -> str:
        """The same of a ratio, with two digits after the point."""
        if self.least == self.most:
            return f"{self.median:.2f}"
        return f"{self.median:.2f} ({self.least:.2f}-{self.most:.2f})"


@dataclass
class Row:
    """A figure at a durability: the measurement of each server in each round."""

    unit: str
    runs: dict[str, dict[int, Measurement]] = field(default_factory=dict)

    def of(self, server: str) -> dict[int, Measurement]:
        """What was measured of a server, by round."""
        return self.runs.get(server, {})

    def values(self, server: str) -> Spread | None:
        return Spread.of(one.value for one in self.of(server).values())

    def processor(self, server: str, *, of_server: bool) -> Spread | None:
        """Seconds or microseconds of processor time, of the server or of its client."""
        costs = [one.cost for one in self.of(server).values() if one.cost is not None]
        found = [cost.server if of_server else cost.client for cost in costs]
        return Spread.of(one for one in found if one is not None)

    def peak(self, server: str) -> Spread | None:
        """Megabytes."""
        return Spread.of(one.peak_rss / 1e6 for one in self.of(server).values() if one.peak_rss)

    @property
    def cost_unit(self) -> str:
        units = {one.cost.unit for runs in self.runs.values() for one in runs.values() if one.cost}
        return "".join(sorted(units))

    def pairs(self, reference: str, ours: str) -> Iterator[tuple[Measurement, Measurement]]:
        """The measurements of rounds in which both were measured, one after the other."""
        theirs, our = self.of(reference), self.of(ours)
        for number_of_round in sorted(theirs.keys() & our.keys()):
            yield theirs[number_of_round], our[number_of_round]

    def ratio(self, reference: str, ours: str) -> Spread | None:
        pairs = self.pairs(reference, ours)
        return Spread.of(our.value / theirs.value for theirs, our in pairs if theirs.value)

    def processor_ratio(self, reference: str, ours: str) -> Spread | None:
        return Spread.of(
            our.cost.server / theirs.cost.server
            for theirs, our in self.pairs(reference, ours)
            if theirs.cost and our.cost and theirs.cost.server
        )


class Results:
    """Every measurement of a run, by durability, metric, server and round.

    Args:
        titles: the servers' names and what the tables call them, the one that is compared with first and ours
            second; others are ceilings, with a table of their own.
    """

    def __init__(self, titles: Mapping[str, str]) -> None:
        self._titles = dict(titles)
        self._rows: dict[Key, Row] = {}

    @property
    def sides(self) -> tuple[str, str]:
        """What is compared with, and what is compared."""
        reference, ours, *_ = self._titles
        return reference, ours

    def add(
        self, durability: Durability, server: str, number_of_round: int, measurement: Measurement
    ) -> None:
        row = self._rows.setdefault((durability, measurement.metric), Row(measurement.unit))
        row.runs.setdefault(server, {})[number_of_round] = measurement

    def rows(self) -> list[tuple[Key, Row]]:
        """In the order in which they were first measured, one durability after the other."""
        order = list(Durability)
        return sorted(self._rows.items(), key=lambda item: order.index(item[0][0]))

    def as_json(self) -> list[dict[str, object]]:
        """Every round's value and cost, for a later look at the spread."""
        return [
            {"durability": key[0].value, "metric": key[1], "unit": row.unit}
            | {server: [_as_json(n, one) for n, one in runs.items()] for server, runs in row.runs.items()}
            for key, row in self.rows()
        ]

    def table(self, *, processor_first: bool = False) -> str:
        """A markdown table of both sides: values, what they cost, and how ours compare, pair by pair."""
        reference, ours = self.sides
        theirs_title, our_title = self._titles[reference], self._titles[ours]
        value = ["unit", theirs_title, our_title, "ratio"]
        processor = ["server's processor", theirs_title, our_title, "ratio"]
        others = [f"client's processor, {theirs_title}", our_title, f"peak MB, {theirs_title}", our_title]
        first, second = (processor, value) if processor_first else (value, processor)
        lines = [*_head(["durability", "figure", *first, *second, *others])]
        for (durability, metric), row in self.rows():
            if not row.of(reference) and not row.of(ours):
                continue
            of_value = [
                row.unit,
                *(_text(row.values(side)) for side in self.sides),
                _ratio(row.ratio(reference, ours)),
            ]
            of_processor = [
                row.cost_unit,
                *(_text(row.processor(side, of_server=True)) for side in self.sides),
                _ratio(row.processor_ratio(reference, ours)),
            ]
            of_others = [
                *(_text(row.processor(side, of_server=False)) for side in self.sides),
                *(_text(row.peak(side)) for side in self.sides),
            ]
            parts = (of_processor, of_value) if processor_first else (of_value, of_processor)
            lines.append(_line([durability.value, metric, *parts[0], *parts[1], *of_others]))
        return "\n".join(lines)

    def ceilings(self) -> str:
        """A table of what the other servers reach; empty without them."""
        _, ours = self.sides
        measured = {name for _, row in self.rows() for name in row.runs}
        names = [name for name in self._titles if name in measured and name not in self.sides]
        rows = [(key, row) for key, row in self.rows() if any(row.of(name) for name in names)]
        if not rows:
            return ""
        titles = [
            part for name in names for part in (self._titles[name], "its processor", "client's processor")
        ]
        lines = [*_head(["durability", "figure", "unit", self._titles[ours], *titles, "processor in"])]
        for (durability, metric), row in rows:
            cells = [durability.value, metric, row.unit, _text(row.values(ours))]
            for name in names:
                cells += [
                    _text(row.values(name)),
                    *(_text(row.processor(name, of_server=mine)) for mine in (True, False)),
                ]
            lines.append(_line([*cells, row.cost_unit]))
        return "\n".join(lines)

    def goals(self) -> str:
        """A table that says of each goal whether it was met, by the worst of the figures it is about."""
        lines = [*_head(["goal", "durability", "bound", "", "worst", "of"])]
        lines += [
            _line([goal.words, durability.value, goal.text, *self._verdict(goal, durability)])
            for goal in GOALS
            for durability in ([goal.durability] if goal.durability else list(Durability))
        ]
        return "\n".join(lines)

    def _verdict(self, goal: Goal, durability: Durability) -> list[str]:
        found = {
            metric: value
            for (at, metric), row in self.rows()
            if at is durability and goal.is_about(at, metric)
            if (value := self._compared(goal, row)) is not None
        }
        if not found:
            return ["not measured", "", ""]
        worst = max(found, key=lambda metric: found[metric] if goal.at_most else -found[metric])
        kept = sum(goal.is_kept_by(value) for value in found.values())
        verdict = "met" if kept == len(found) else f"**missed** by {len(found) - kept} of {len(found)}"
        return [verdict, f"{found[worst]:.2f}", worst]

    def _compared(self, goal: Goal, row: Row) -> float | None:
        reference, ours = self.sides
        spread = {
            Of.VALUE: lambda: row.ratio(reference, ours),
            Of.SERVER: lambda: row.processor_ratio(reference, ours),
            Of.OURS: lambda: row.values(ours),
        }[goal.of]()
        return None if spread is None else spread.median


def _as_json(number_of_round: int, one: Measurement) -> dict[str, object]:
    found: dict[str, object] = {"round": number_of_round, "value": one.value}
    if one.cost is not None:
        found |= {"server": one.cost.server, "client": one.cost.client, "cost_unit": one.cost.unit}
    if one.peak_rss is not None:
        found["peak_rss"] = one.peak_rss
    if one.point is not None:
        found |= {"growth": one.point.growth, "x": one.point.x, "what": one.point.what}
    return found


def _text(spread: Spread | None) -> str:
    return "" if spread is None else spread.text()


def _ratio(spread: Spread | None) -> str:
    return "" if spread is None else spread.ratio()


def number(value: float) -> str:
    """As the tables write it: three digits, or all before the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _head(cells: list[str]) -> tuple[str, str]:
    return _line(cells), "|" + "---|" * len(cells)


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"
