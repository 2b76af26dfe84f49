"""What a scrape shows."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gateway.common.metrics import Histogram, Metrics


def samples(metrics: Metrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Every sample by name and labels."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(metrics.text().decode())
        for sample in family.samples
    }


def test_requests_are_shown_by_api() -> None:
    metrics = Metrics(with_process=False)
    fetch, produce = metrics.api(1, "Fetch"), metrics.api(0, "Produce")
    assert metrics.api(1, "Fetch") is fetch
    fetch.requests, fetch.request_bytes, fetch.response_bytes = 3, 100, 5000
    for seconds in (0.00005, 0.0001, 0.003, 100.0):
        fetch.latency.observe(seconds)
    shown = samples(metrics)
    api = (("api", "Fetch"),)
    assert shown["dafka_requests_total", api] == 3
    assert shown["dafka_request_bytes_total", api] == 100
    assert shown["dafka_response_bytes_total", api] == 5000
    assert shown["dafka_request_seconds_count", api] == 4
    assert shown["dafka_request_seconds_sum", api] == pytest.approx(100.00315)
    buckets = {
        dict(labels)["le"]: value
        for (name, labels), value in shown.items()
        if name == "dafka_request_seconds_bucket" and ("api", "Fetch") in labels
    }
    assert (buckets["0.0001"], buckets["0.0025"], buckets["0.005"], buckets["30.0"], buckets["+Inf"]) == (
        2, 2, 3, 3, 4,
    )  # fmt: skip
    assert shown["dafka_requests_total", (("api", "Produce"),)] == produce.requests == 0


def test_stages_are_shown_of_apis_that_were_measured() -> None:
    metrics = Metrics(with_process=False)
    metrics.api(1, "Fetch")
    produce = metrics.api(0, "Produce")
    produce.queued.observe(0.001)
    produce.worked.observe(0.5)
    name = "dafka_request_stage_seconds"
    shown = {key: value for key, value in samples(metrics).items() if key[0] == f"{name}_sum"}
    assert shown == {
        (f"{name}_sum", (("api", "Produce"), ("stage", "queue"))): 0.001,
        (f"{name}_sum", (("api", "Produce"), ("stage", "work"))): 0.5,
    }


def test_what_is_described_is_what_is_shown() -> None:
    for with_clients in (False, True):
        metrics = Metrics(with_process=False, with_clients=with_clients)
        metrics.gauge("dafka_window_bytes", "Window.", lambda: 1, labels=())
        metrics.histogram("dafka_fsync_seconds", "Fsync.", Histogram())
        heads = [line for line in metrics.text().decode().splitlines() if line.startswith("# TYPE")]
        assert heads == [f"# TYPE {one.name} {one.kind}" for one in metrics.described()]


def test_others_add_values_that_are_read_at_each_scrape() -> None:
    metrics = Metrics(with_process=False)
    heads = {("orders", "0"): 7.0, ("orders", "1"): 9.0}
    window = [100]
    fsync = Histogram((0.001, 0.01))
    metrics.gauge("dafka_durable_head", "Durable head.", lambda: heads, labels=("topic", "partition"))
    metrics.gauge("dafka_window_bytes", "Window.", lambda: window[0])
    metrics.counter("dafka_malformed_messages_total", "Dropped.", lambda: 4)
    metrics.histogram("dafka_fsync_seconds", "Fsync.", fsync)
    fsync.observe(0.005)
    shown = samples(metrics)
    assert shown["dafka_durable_head", (("partition", "1"), ("topic", "orders"))] == 9
    assert shown["dafka_window_bytes", ()] == 100
    assert shown["dafka_malformed_messages_total", ()] == 4
    assert shown["dafka_fsync_seconds_bucket", (("le", "0.001"),)] == 0
    assert shown["dafka_fsync_seconds_bucket", (("le", "0.01"),)] == 1
    window[0], heads["orders", "1"] = 200, 10.0
    shown = samples(metrics)
    assert shown["dafka_window_bytes", ()] == 200
    assert shown["dafka_durable_head", (("partition", "1"), ("topic", "orders"))] == 10


def test_a_name_is_given_once() -> None:
    metrics = Metrics(with_process=False)
    metrics.gauge("dafka_x", "X.", lambda: 1)
    with pytest.raises(ValueError, match="dafka_x is registered twice"):
        metrics.gauge("dafka_x", "X.", lambda: 2)


def test_adding_a_value_does_not_read_it() -> None:
    def unready() -> float:
        raise AssertionError("read before a scrape")

    Metrics(with_process=False).gauge("dafka_later", "Later.", unready)


def test_the_process_is_shown_too() -> None:
    shown = samples(Metrics())
    assert shown["process_resident_memory_bytes", ()] > 0
