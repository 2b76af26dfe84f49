"""Medians, ratios and the table."""

import statistics
from collections import defaultdict
from collections.abc import Iterable

from tests.bench.measurement import Measurement
from tests.bench.servers import Durability


class Results:
    """Every measurement of a run, by durability, metric and server."""

    def __init__(self) -> None:
        self._values: dict[tuple[Durability, str], dict[str, list[float]]] = defaultdict(
            lambda: defaultdict(list)
        )
        self._first: dict[tuple[Durability, str], Measurement] = {}

    def add(self, durability: Durability, server: str, measurement: Measurement) -> None:
        key = (durability, measurement.metric)
        self._first.setdefault(key, measurement)
        self._values[key][server].append(measurement.value)

    def as_json(self) -> list[dict[str, object]]:
        """Every round's value, for a later look at the spread."""
        return [
            {"durability": key[0].value, "metric": key[1], "unit": self._first[key].unit, **servers}
            for key, servers in self._values.items()
        ]

    def table(self) -> str:
        """A markdown table: medians over the rounds, ours over Kafka's, and what is aimed at."""
        lines = [
            "| durability | figure | unit | Apache Kafka | dafka standalone | ratio | goal |",
            "|---|---|---|---|---|---|---|",
        ]
        lines += [
            self._row(key) for key in sorted(self._values, key=lambda key: list(Durability).index(key[0]))
        ]
        return "\n".join(lines)

    def _row(self, key: tuple[Durability, str]) -> str:
        measurement = self._first[key]
        medians = {server: statistics.median(values) for server, values in self._values[key].items()}
        kafka, ours = medians.get("kafka"), medians.get("dafka")
        ratio = ours / kafka if ours is not None and kafka else None
        cells = [key[0].value, measurement.metric, measurement.unit, _number(kafka), _number(ours)]
        return _line([*cells, "" if ratio is None else f"{ratio:.2f}", _goal(measurement, ratio, ours)])


def _goal(measurement: Measurement, ratio: float | None, ours: float | None) -> str:
    if measurement.goal is not None:
        sign, bound, reached = (">=" if measurement.more_is_better else "<="), measurement.goal, ratio
        text = f"{sign} {bound:g} x"
    elif measurement.limit is not None:
        sign, bound, reached = "<", measurement.limit, ours
        text = f"< {bound:g} {measurement.unit}"
    else:
        return ""
    if reached is None:
        return text
    met = reached >= bound if sign == ">=" else reached <= bound
    return text if met else f"{text}, **missed**"


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"
