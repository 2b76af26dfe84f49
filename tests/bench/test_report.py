"""The benchmark's arithmetic: a wrong table would be believed."""

import pytest

from tests.bench.__main__ import selected
from tests.bench.figures import FIGURES
from tests.bench.measurement import Measurement
from tests.bench.report import Results
from tests.bench.servers import Durability

HEADER = 2


def rows(results: Results) -> list[str]:
    return results.table().splitlines()[HEADER:]


def test_table_holds_medians_and_our_ratio_to_kafka() -> None:
    results = Results()
    for kafka, ours in ((100, 50), (1000, 5000), (200, 150)):
        results.add(Durability.FSYNC, "kafka", Measurement("produce", "MB/s", kafka, True, goal=1.0))
        results.add(Durability.FSYNC, "dafka", Measurement("produce", "MB/s", ours, True, goal=1.0))

    assert rows(results) == ["| fsync | produce | MB/s | 200 | 150 | 0.75 | >= 1 x, **missed** |"]


@pytest.mark.parametrize(
    ("measurement", "kafka", "goal"),
    [
        (Measurement("m", "us", 119.0, False, goal=1.2), 100.0, "<= 1.2 x"),
        (Measurement("m", "us", 121.0, False, goal=1.2), 100.0, "<= 1.2 x, **missed**"),
        (Measurement("m", "MB/s", 81.0, True, goal=0.8), 100.0, ">= 0.8 x"),
        (Measurement("m", "s", 0.9, False, limit=1.0), 5.0, "< 1 s"),
        (Measurement("m", "s", 1.1, False, limit=1.0), 5.0, "< 1 s, **missed**"),
        (Measurement("m", "MB", 1.0, False), 1.0, ""),
    ],
)
def test_goal_is_missed_only_on_its_bad_side(measurement: Measurement, kafka: float, goal: str) -> None:
    results = Results()
    results.add(Durability.CACHED, "dafka", measurement)
    theirs = Measurement("m", measurement.unit, kafka, measurement.more_is_better)
    results.add(Durability.CACHED, "kafka", theirs)

    assert rows(results)[0].split("|")[-2].strip() == goal


def test_durabilities_and_servers_are_never_mixed() -> None:
    results = Results()
    results.add(Durability.CACHED, "kafka", Measurement("produce", "MB/s", 1.0, True))
    results.add(Durability.FSYNC, "dafka", Measurement("produce", "MB/s", 2.0, True))

    assert rows(results) == [
        "| fsync | produce | MB/s |  | 2 |  |  |",
        "| cached | produce | MB/s | 1 |  |  |  |",
    ]
    assert results.as_json() == [
        {"durability": "cached", "metric": "produce", "unit": "MB/s", "kafka": [1.0]},
        {"durability": "fsync", "metric": "produce", "unit": "MB/s", "dafka": [2.0]},
    ]


def test_figures_are_chosen_by_the_beginning_of_their_names() -> None:
    assert selected(["latency", "produce-100"]) == ["latency", "produce-100-p1", "produce-100-p4"]
    assert selected([]) == list(FIGURES)
    with pytest.raises(SystemExit, match="no figure begins with consum0"):
        selected(["consum0"])
