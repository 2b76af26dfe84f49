"""The dashboard for Grafana, from what stands here.

`python -m tests.monitoring.dashboard` writes deploy/grafana/dafka.json; a test compares it with what is
there, and another one asks a Prometheus each of its questions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tests.monitoring.rules import ROOT

FILE: Final = ROOT / "deploy" / "grafana" / "dafka.json"

SCHEMA_VERSION: Final = 39
"""Of the dashboard's JSON: Grafana 10.4 and later read it as it is."""

COLUMNS: Final = 24
"""How wide Grafana's grid is."""

SOURCE: Final = {"type": "prometheus", "uid": "${source}"}

J: Final = 'job=~"$job"'
"""In each selector: the meshes that were chosen."""

BROKEN: Final = {"color": "red", "value": 1}


@dataclass(frozen=True)
class Query:
    """What is asked, and what its lines are called. `may_be_empty`: nothing is shown while all is well."""

    expression: str
    legend: str = "__auto"
    may_be_empty: bool = False


@dataclass(frozen=True)
class Panel:
    """A picture. `width` is in columns of `COLUMNS`; `unit` is one of Grafana's."""

    title: str
    queries: Sequence[Query]
    unit: str = "short"
    kind: str = "timeseries"
    width: int = 8
    alarming: float | None = None
    """From this value on it is red."""
    help: str = ""


def q(expression: str, legend: str = "__auto", *, may_be_empty: bool = False) -> Query:
    return Query(expression.replace("{}", f"{{{J}}}").replace("{+", f"{{{J},"), legend, may_be_empty)


def stat(title: str, expression: str, alarming: float | None = None, unit: str = "short") -> Panel:
    return Panel(title, [q(expression)], unit, "stat", 4, alarming)


def share(quantile: float, metric: str, by: str = "", only: str = "") -> str:
    """What so large a share of a histogram stays below."""
    selector = f"{{+{only}}}" if only else "{}"
    rates = f"rate({metric}_bucket{selector}[$__rate_interval])"
    return f"histogram_quantile({quantile}, sum by ({f'{by}, ' if by else ''}le) ({rates}))"


def rate(metric: str, by: str) -> str:
    return f"sum by ({by}) (rate({metric}{{}}[$__rate_interval]))"


ROWS: Final[dict[str, Sequence[Panel]]] = {
    "Health": [
        stat("Processes that do not answer", "count(up{} == 0) or vector(0)", 1),
        stat("Partitions offline", "max(dafka_partitions_offline{})", 1),
        stat("Partitions that refuse acks=all", "max(dafka_partitions_under_min_copies{})", 1),
        stat("Partitions with too few copies", "max(dafka_partitions_under_replicated{})", 1),
        stat("Latest group", "max(dafka_group_lag_seconds{})", 300, "s"),
        stat(
            "Fullest disk: free",
            "min(dafka_store_disk_free_bytes{} / dafka_store_disk_size_bytes{})",
            None,
            "percentunit",
        ),
        Panel(
            "Alerts that fire",
            [q('ALERTS{+alertstate="firing"}', "{{alertname}} {{instance}}{{group}}", may_be_empty=True)],
            kind="state-timeline",
            width=12,
        ),
        Panel(
            "Partitions that lack something",
            [
                q("max by (job) (dafka_partitions_offline{})", "offline"),
                q("max by (job) (dafka_partitions_under_min_copies{})", "refuse acks=all"),
                q("max by (job) (dafka_partitions_under_replicated{})", "too few copies"),
            ],
            width=12,
        ),
    ],
    "Topics": [
        Panel("Records in", [q(rate("dafka_topic_in_records_total", "topic"), "{{topic}}")], "cps"),
        Panel("Bytes in", [q(rate("dafka_topic_in_bytes_total", "topic"), "{{topic}}")], "Bps"),
        Panel("Bytes out", [q(rate("dafka_topic_out_bytes_total", "topic"), "{{topic}}")], "Bps"),
        Panel(
            "Size of the log",
            [q("topk(20, max by (topic) (dafka_topic_log_bytes{}))", "{{topic}}")],
            "bytes",
            help="Each batch is counted once, however many stores keep it.",
        ),
        Panel(
            "Dropped by retention",
            [q("sum by (job) (rate(dafka_retention_bytes_removed_total{}[$__rate_interval]))", "{{job}}")],
            "Bps",
        ),
        Panel(
            "Compaction",
            [
                q("sum(rate(dafka_compaction_bytes_removed_total{}[$__rate_interval]))", "saved a second"),
                q("sum(dafka_compaction_dirty_bytes{})", "to be compacted"),
            ],
            "bytes",
        ),
    ],
    "Requests": [
        Panel("Requests", [q(rate("dafka_requests_total", "api"), "{{api}}")], "reqps"),
        Panel(
            "Latency, 99th percentile",
            [q(share(0.99, "dafka_request_seconds", "api"), "{{api}}")],
            "s",
            help="From the whole request to its answer ready to be sent; a Fetch waits for records.",
        ),
        Panel(
            "Produce: where its time goes",
            [
                q(
                    share(0.5, "dafka_request_seconds", only='api="Produce"'),
                    "Produce, median",
                ),
                q(
                    share(0.99, "dafka_request_seconds", only='api="Produce"'),
                    "Produce, 99 %",
                ),
                q(
                    share(0.99, "dafka_store_fsync_seconds"),
                    "fsync of stores, 99 %",
                ),
            ],
            "s",
        ),
        Panel(
            "Stages, 99th percentile",
            [q(share(0.99, "dafka_request_stage_seconds", "api, stage"), "{{api}}: {{stage}}")],
            "s",
            help="queue: until the work on a request begins; work: until its answer is ready to be sent.",
        ),
        Panel(
            "Errors",
            [
                q(
                    rate("dafka_partition_errors_total", "api, error"),
                    "{{api}}: {{error}}",
                    may_be_empty=True,
                )
            ],
            "cps",
        ),
        Panel("Connections", [q("sum by (instance) (dafka_connections{})", "{{instance}}")]),
        Panel(
            "Connections refused and closed",
            [
                q(
                    rate("dafka_connections_refused_total", "reason"),
                    "refused: {{reason}}",
                    may_be_empty=True,
                ),
                q(rate("dafka_connections_closed_total", "reason"), "closed: {{reason}}", may_be_empty=True),
            ],
            "cps",
        ),
        Panel(
            "Memory held for clients",
            [
                q("sum by (what) (dafka_memory_bytes{})", "{{what}}"),
                q("sum(dafka_window_bytes{})", "not durable yet"),
            ],
            "bytes",
        ),
    ],
    "Consumer groups": [
        Panel(
            "Lag in seconds",
            [q("topk(20, max by (group, topic) (dafka_group_lag_seconds{}))", "{{group}} {{topic}}")],
            "s",
            help="The age of the oldest record that the group has not committed.",
        ),
        Panel(
            "Lag in records",
            [q("topk(20, max by (group, topic) (dafka_group_lag_records{}))", "{{group}} {{topic}}")],
        ),
        Panel(
            "Pace",
            [
                q(
                    "max by (group, topic) (deriv(dafka_group_position_records{}[$__rate_interval]))",
                    "{{group}} {{topic}}",
                )
            ],
            "cps",
        ),
        Panel("Members", [q("max by (group) (dafka_group_members{})", "{{group}}")]),
        Panel("Generations", [q(rate("dafka_group_rebalances_total", "job"), "{{job}}")], "cps"),
        Panel(
            "Lost: deleted before they were read",
            [
                q(
                    "max by (group, topic) (dafka_group_lost_records{}) > 0",
                    "{{group}} {{topic}}",
                    may_be_empty=True,
                )
            ],
        ),
    ],
    "Stores": [
        Panel(
            "Disk: free",
            [q("dafka_store_disk_free_bytes{} / dafka_store_disk_size_bytes{}", "{{instance}}")],
            "percentunit",
        ),
        Panel(
            "Disk: free in four hours at this pace",
            [q("clamp_min(predict_linear(dafka_store_disk_free_bytes{}[1h], 14400), 0)", "{{instance}}")],
            "bytes",
        ),
        Panel(
            "fsync, 99th percentile",
            [
                q(
                    share(0.99, "dafka_store_fsync_seconds", "instance"),
                    "{{instance}}",
                )
            ],
            "s",
        ),
        Panel(
            "Bytes committed",
            [q(rate("dafka_store_committed_bytes_total", "instance"), "{{instance}}")],
            "Bps",
        ),
        Panel(
            "Catching up",
            [
                q(rate("dafka_store_copied_bytes_total", "instance"), "{{instance}}: bytes a second"),
                q(
                    "sum by (store) (dafka_store_unconfirmed_segments{})",
                    "{{store}}: segments",
                    may_be_empty=True,
                ),
            ],
        ),
        Panel(
            "Scrub and damage",
            [
                q(rate("dafka_store_scrubbed_bytes_total", "instance"), "{{instance}}: bytes read a second"),
                q("sum by (instance) (dafka_store_damaged_segments{})", "{{instance}}: damaged segments"),
                q("sum by (instance) (dafka_store_irreparable_ranges{})", "{{instance}}: not repairable"),
            ],
        ),
    ],
    "Processes": [
        Panel(
            "Processor",
            [q("rate(process_cpu_seconds_total{}[$__rate_interval])", "{{instance}}")],
            "percentunit",
        ),
        Panel("Memory", [q("process_resident_memory_bytes{}", "{{instance}}")], "bytes"),
        Panel(
            "Longest stretch of the event loop",
            [q("dafka_loop_longest_stretch_seconds{}", "{{instance}}")],
            "s",
        ),
        Panel("Open files", [q("process_open_fds{}", "{{instance}}")]),
        Panel(
            "Links to peers", [q("sum by (instance, state) (dafka_mesh_peers{})", "{{instance}} {{state}}")]
        ),
        Panel("Versions", [q("count by (version) (dafka_build_info{})", "{{version}}")]),
    ],
}


def dashboard() -> dict[str, Any]:
    """As Grafana imports it."""
    return {
        "title": "Dafka",
        "uid": "dafka",
        "tags": ["dafka", "kafka"],
        "schemaVersion": SCHEMA_VERSION,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": [_source(), _job()]},
        "panels": list(_panels()),
    }


def queries() -> Iterator[tuple[str, Query]]:
    """(Title of the panel, one of its queries), all of them."""
    for panels in ROWS.values():
        for panel in panels:
            for query in panel.queries:
                yield panel.title, query


def asked(expression: str) -> str:
    """As Grafana asks it, of all meshes and over a minute."""
    return expression.replace("$__rate_interval", "1m").replace("$job", ".*")


def _source() -> dict[str, Any]:
    return {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"}


def _job() -> dict[str, Any]:
    return {
        "name": "job",
        "label": "Mesh",
        "type": "query",
        "datasource": SOURCE,
        "query": "label_values(dafka_build_info, job)",
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        "current": {"text": ["All"], "value": ["$__all"]},
    }


def _panels() -> Iterator[dict[str, Any]]:
    number, y = 1, 0
    for title, panels in ROWS.items():
        yield {
            "id": number,
            "type": "row",
            "title": title,
            "collapsed": False,
            "gridPos": {"h": 1, "w": COLUMNS, "x": 0, "y": y},
            "panels": [],
        }
        number, y, x, tallest = number + 1, y + 1, 0, 0
        for panel in panels:
            height = 4 if panel.kind == "stat" else 8
            if x + panel.width > COLUMNS:
                x, y, tallest = 0, y + tallest, 0
            yield _panel(panel, number, {"h": height, "w": panel.width, "x": x, "y": y})
            number, x, tallest = number + 1, x + panel.width, max(tallest, height)
        y += tallest


def _panel(panel: Panel, number: int, place: dict[str, int]) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [{"color": "green", "value": None}]
    if panel.alarming is not None:
        steps.append({"color": "red", "value": panel.alarming})
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.help,
        "datasource": SOURCE,
        "gridPos": place,
        "fieldConfig": {
            "defaults": {"unit": panel.unit, "min": 0, "thresholds": {"mode": "absolute", "steps": steps}},
            "overrides": [],
        },
        "options": {},
        "targets": [
            {
                "refId": chr(ord("A") + place_of),
                "datasource": SOURCE,
                "expr": query.expression,
                "legendFormat": query.legend,
                "range": True,
            }
            for place_of, query in enumerate(panel.queries)
        ],
    }


def text() -> str:
    """The file."""
    return json.dumps(dashboard(), indent=2) + "\n"


if __name__ == "__main__":
    FILE.write_text(text())
