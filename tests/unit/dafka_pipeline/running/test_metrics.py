"""What Prometheus reads."""

from __future__ import annotations

import io
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from dafka_pipeline.failures import UsageFailure
from dafka_pipeline.running.metrics import MOST_TOPICS, JobMetrics, bounded, parse_address, served
from dafka_pipeline.running.report import Progress, Report


def scraped(address: str) -> dict[str, float]:
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name.startswith("dafka_"):
                assert sample.labels.pop("command") == "archive"
                labels = "".join(f"{{{value}}}" for _, value in sorted(sample.labels.items()))
                found[sample.name.removeprefix("dafka_pipeline_") + labels] = sample.value
    return found


def test_what_a_report_tells_is_served() -> None:
    metrics = JobMetrics("archive", now=lambda: 1234.5)
    with served(metrics, "127.0.0.1:0") as address:
        report = Report("archive", out=io.StringIO())
        report.listen(metrics)
        assert scraped(address) == {"up": 1, "waiting_for_kafka": 0, "batches_total": 0, "failures_total": 0}

        report.waiting("Away.")
        report.retrying("Failed.")
        assert scraped(address) == {"up": 1, "waiting_for_kafka": 1, "batches_total": 0, "failures_total": 1}

        report.went_on("Back.")
        report.progress(Progress(70, 100, 35.0, 30, 2.5, 4, {"read": 1.5, "commit": 0.5}, {"a": 50, "b": 20}))
        report.progress(Progress(100, 100, 60.0, 0, 0.0, 5, {"read": 0.5}, {"a": 75, "b": 25}))
        # A look that found nothing is no step.
        report.progress(Progress(100, 100, 0.0, 0, 0.0, 5, {}, {"a": 75, "b": 25}))
        assert scraped(address) == {
            "up": 1,
            "waiting_for_kafka": 0,
            "batches_total": 2,
            "failures_total": 1,
            "last_success_timestamp_seconds": 1234.5,
            "batch_phase_seconds_count{read}": 2,
            "batch_phase_seconds_sum{read}": 2.0,
            "batch_phase_seconds_count{commit}": 1,
            "batch_phase_seconds_sum{commit}": 0.5,
            "records_total{a}": 75,
            "records_total{b}": 25,
            "records_lost_total": 5,
            "records_per_second": 0,
            "expected_records": 100,
            "lag_records": 0,
            "lag_seconds": 0,
        }


def test_a_job_without_an_end_or_a_lag_has_no_such_series() -> None:
    metrics = JobMetrics("archive")
    metrics.progressed(Progress(5))
    with served(metrics, "127.0.0.1:0") as address:
        found = scraped(address)
    assert found["records_total{}"] == 5
    assert not {"lag_records", "lag_seconds", "expected_records"} & found.keys()


def test_topics_are_bounded_and_nothing_is_missing_from_the_sum() -> None:
    by_topic = {f"topic-{n}": n for n in range(1, MOST_TOPICS + 51)}
    total = sum(by_topic.values())
    found = bounded(Progress(total, by_topic=by_topic))
    assert len(found) == MOST_TOPICS + 1
    assert sum(found.values()) == total
    assert found["(other)"] == sum(range(1, 51))
    assert found["topic-51"] == 51


def test_the_port_is_free_again_afterwards() -> None:
    with served(JobMetrics("archive"), "127.0.0.1:0") as address:
        taken = pytest.raises(UsageFailure, match=rf"^--metrics {address}: Address already in use")
        with taken, served(JobMetrics("archive"), address):
            raise AssertionError("not reached")
    with served(JobMetrics("archive"), address) as again:
        assert again == address


@pytest.mark.parametrize(
    "address", ["", "localhost", ":9405", "localhost:", "localhost:x", "h:65536", "h:-1"]
)
def test_an_address_that_is_none(address: str) -> None:
    with pytest.raises(UsageFailure, match="give HOST:PORT"):
        parse_address(address)


def test_addresses() -> None:
    assert parse_address("0.0.0.0:9405") == ("0.0.0.0", 9405)
    assert parse_address("[::1]:0") == ("::1", 0)
