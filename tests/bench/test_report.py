"""The benchmark's arithmetic: a wrong table would be believed."""

from __future__ import annotations

import pytest

from tests.bench.__main__ import selected
from tests.bench.figures import FIGURES
from tests.bench.goals import GOALS
from tests.bench.measurement import PER_GB, Cost, Measurement, Point
from tests.bench.report import Results
from tests.bench.servers import Durability

HEADER = 2
TITLES = {"kafka": "Apache Kafka", "dafka": "dafka standalone"}
FSYNC, CACHED = Durability.FSYNC, Durability.CACHED


def cells(table: str) -> list[list[str]]:
    """What stands in the rows below the header."""
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[HEADER:]]


def throughput(metric: str, value: float, server: float, client: float = 0.1) -> Measurement:
    return Measurement(metric, "MB/s", value, True, Cost(server, client, PER_GB), peak_rss=50_000_000)


def test_table_holds_medians_and_the_ratios_of_pairs() -> None:
    results = Results(TITLES)
    for number, (kafka, ours) in enumerate(((100, 50), (1000, 5000), (200, 150)), 1):
        results.add(FSYNC, "kafka", number, throughput("produce", kafka, 2.0))
        results.add(FSYNC, "dafka", number, throughput("produce", ours, number))

    ((durability, metric, *value),) = cells(results.table())
    assert (durability, metric) == ("fsync", "produce")
    assert value[:4] == ["MB/s", "200 (100-1,000)", "150 (50-5,000)", "0.75 (0.50-5.00)"]
    assert value[4:8] == ["s/GB", "2", "2 (1-3)", "1.00 (0.50-1.50)"]
    assert value[8:] == ["0.1", "0.1", "50", "50"]


def test_a_ratio_is_of_runs_of_one_round() -> None:
    """What is missing on one side in a round leaves no ratio, nor shifts the others."""
    results = Results(TITLES)
    for number, value in ((1, 10.0), (2, 20.0), (3, 30.0)):
        results.add(FSYNC, "kafka", number, throughput("produce", value, value))
    results.add(FSYNC, "dafka", 2, throughput("produce", 40.0, 5.0))

    (row,) = cells(results.table())
    assert row[4:6] == ["40", "2.00"]
    assert row[8:10] == ["5", "0.25"]


def test_the_processor_comes_first_where_it_is_asked_for() -> None:
    results = Results({"commit": "before", "tree": "after"})
    results.add(FSYNC, "commit", 1, throughput("produce", 10.0, 2.0))
    results.add(FSYNC, "tree", 1, throughput("produce", 10.0, 1.0))
    table = results.table(processor_first=True)
    assert table.splitlines()[0].startswith(
        "| durability | figure | server's processor | before | after | ratio |"
    )
    assert cells(table)[0][2:6] == ["s/GB", "2", "1", "0.50"]


def test_durabilities_and_servers_are_never_mixed() -> None:
    results = Results(TITLES)
    results.add(CACHED, "kafka", 1, Measurement("produce", "MB/s", 1.0, True))
    results.add(FSYNC, "dafka", 1, Measurement("produce", "MB/s", 2.0, True))

    assert [row[:6] for row in cells(results.table())] == [
        ["fsync", "produce", "MB/s", "", "2", ""],
        ["cached", "produce", "MB/s", "1", "", ""],
    ]
    assert results.as_json() == [
        {"durability": "fsync", "metric": "produce", "unit": "MB/s", "dafka": [{"round": 1, "value": 2.0}]},
        {"durability": "cached", "metric": "produce", "unit": "MB/s", "kafka": [{"round": 1, "value": 1.0}]},
    ]


def test_ceilings_have_a_table_of_their_own() -> None:
    results = Results({**TITLES, "sink": "null sink"})
    assert results.ceilings() == ""
    results.add(FSYNC, "dafka", 1, throughput("produce", 100.0, 1.0))
    results.add(FSYNC, "sink", 1, throughput("produce", 900.0, 0.2, 0.3))
    results.add(FSYNC, "sink", 1, throughput("only a ceiling", 900.0, 0.2, 0.3))
    assert [row[1] for row in cells(results.table())] == ["produce"]
    assert cells(results.ceilings())[0] == ["fsync", "produce", "MB/s", "100", "900", "0.2", "0.3", "s/GB"]


PRODUCE = "produce 100 B, 1 partition, 1 producer, plain"
OF_16 = "produce 100 B, 16 partitions, 8 producers, plain"


def verdicts(results: Results, words: str) -> dict[str, list[str]]:
    """Of the goal with these words: durability -> verdict, worst, its figure."""
    return {row[1]: row[3:] for row in cells(results.goals()) if row[0] == words}


def test_a_goal_is_met_by_all_its_figures_or_missed() -> None:
    results = Results(TITLES)
    for durability, ours in ((FSYNC, (0.6, 0.69)), (CACHED, (0.6, 0.71))):
        for metric, cost in zip((PRODUCE, OF_16), ours, strict=True):
            results.add(durability, "kafka", 1, throughput(metric, 100.0, 1.0))
            results.add(durability, "dafka", 1, throughput(metric, 100.0 if metric == OF_16 else 130.0, cost))

    processor = "server CPU per GB, produce 100 B"
    assert verdicts(results, processor) == {
        "fsync": ["met", "0.69", OF_16],
        "cached": ["**missed** by 1 of 2", "0.71", OF_16],
    }
    assert verdicts(results, "produce throughput") == {
        "fsync": ["**missed** by 1 of 2", "1.00", OF_16],
        "cached": ["met", "1.00", OF_16],
    }
    assert verdicts(results, "RSS loaded")["fsync"] == ["not measured", "", ""]


def test_a_goal_in_the_unit_itself_needs_no_other_side() -> None:
    results = Results(TITLES)
    results.add(FSYNC, "dafka", 1, Measurement("exec to first Metadata", "s", 0.61, False))
    results.add(CACHED, "dafka", 1, Measurement("exec to first Metadata", "s", 0.59, False))
    found = verdicts(results, "first Metadata, s")
    assert found["fsync"][:2] == ["**missed** by 1 of 1", "0.61"]
    assert found["cached"][:2] == ["met", "0.59"]


@pytest.mark.parametrize(
    "metric",
    [
        PRODUCE,
        OF_16,
        "produce 1,024 B, 200 partitions, 8 producers, plain",
        "consume hot, 1,024 B, 16 partitions",
        "consume cold, 100 B, 1 partition",
        "one record at a time, Java, p99",
        "end to end at 10,000 records/s, p50",
        "commits of 100 groups of 3",
        "rebalance of 50 members",
        "transactions of 1 record, 1 producer",
        "transactions of 1 MB, 100 producers",
        "commit's call until it is visible, p99",
        "commit's answer until the next acknowledgement, p50",
        "read_committed, log with transactions",
        "read_uncommitted, log without transactions",
        "Spark trigger of a micro-batch",
        "memory, idle",
        "memory, loaded",
        "growth: produce p99, 10,000 partitions over 10",
        "growth, 10,000 partitions: memory, idle",
        "growth, 10,000 partitions: start after a kill, all partitions",
    ],
)
def test_figures_that_have_a_goal_are_found_by_it(metric: str) -> None:
    assert any(goal.is_about(FSYNC, metric) for goal in GOALS)


@pytest.mark.parametrize(
    "metric",
    [
        "produce 100 B, 1 partition, 1 producer, lz4",
        "produce 10,240 B, 1 partition, 1 producer, plain",
        "one record at a time, native, p99.9",
        "mixed, one record at a time, p99",
        "commits of 10 groups of 3",
        "commit's call until its answer, p50",
        "read_committed over read_uncommitted, log with transactions",
        "growth, 1,000 partitions: memory, idle",
    ],
)
def test_no_goal_is_about_others(metric: str) -> None:
    assert [goal.words for goal in GOALS if goal.is_about(FSYNC, metric)] == []


def test_points_keep_their_place_on_the_curve() -> None:
    results = Results(TITLES)
    point = Point("partitions", 100, "produce p99, us")
    results.add(FSYNC, "dafka", 1, Measurement("growth", "us", 9.0, False, point=point))
    (row,) = results.as_json()
    assert row["dafka"] == [
        {"round": 1, "value": 9.0, "growth": "partitions", "x": 100, "what": "produce p99, us"}
    ]


def test_figures_are_chosen_by_the_beginning_of_their_names() -> None:
    assert selected(["latency", "produce-100-p16-x8"]) == [
        *(f"produce-100-p16-x8-{codec}" for codec in ("plain", "lz4", "zstd")),
        "latency-native",
        "latency-java",
        "latency-librdkafka",
    ]
    with pytest.raises(SystemExit, match="no figure begins with consum0"):
        selected(["consum0"])


def test_what_takes_long_is_measured_by_name_alone() -> None:
    growing = ("partitions", "connections", "log", "segments", "transactional-ids")
    growth = [f"growth-{what}" for what in growing]
    assert selected(["growth"]) == growth
    assert selected([]) == [name for name in FIGURES if name not in growth]
