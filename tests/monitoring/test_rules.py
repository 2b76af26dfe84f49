"""Each alert fires on what it is for, after its time, and not before; and leads to words that help."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.docs.metrics_page import SECTIONS, metrics_of
from tests.docs.test_docs import anchors
from tests.monitoring.rules import ROOT, RULES, alerts, quick_rules, runbooks
from tests.peers.requirements import require

GATEWAY = 'job="dafka",instance="gateway:9404"'
STORE = 'job="dafka",instance="store-1:9404"'
GROUP = f'{GATEWAY},group="g",topic="orders"'


@dataclass
class Scene:
    """What is scraped, a value a minute, and when the alert fires: quiet a minute before `quiet`, firing at
    `firing` (minutes).
    """

    series: dict[str, str]
    quiet: int
    firing: int


SCENES = {
    "DafkaDown": Scene({f"up{{{STORE}}}": "1x5 0x20"}, 6, 10),
    "DafkaNotReady": Scene({f"dafka_ready{{{GATEWAY}}}": "1x5 0x20"}, 9, 12),
    "DafkaLoopHeldUp": Scene({f"dafka_loop_longest_stretch_seconds{{{GATEWAY}}}": "0.1x5 1.5x20"}, 9, 12),
    "DafkaVersionsDiffer": Scene(
        {
            f'dafka_build_info{{{GATEWAY},version="1.1.0"}}': "1x500",
            f'dafka_build_info{{{STORE},version="1.0.0"}}': "1x500",
        },
        350,
        365,
    ),
    "DafkaCertificateEnds": Scene(
        {f"dafka_tls_certificate_expiry_seconds{{{GATEWAY}}}": "1209900-60x200"}, 60, 70
    ),
    "DafkaTowerNotConnected": Scene(
        {f'dafka_mesh_tower_connected{{{STORE},tower="t:5557"}}': "1x5 0x20"}, 9, 12
    ),
    "DafkaPartitionsOffline": Scene({f"dafka_partitions_offline{{{GATEWAY}}}": "0x5 3x20"}, 6, 8),
    "DafkaPartitionsUnderMinCopies": Scene(
        {f"dafka_partitions_under_min_copies{{{GATEWAY}}}": "0x5 3x20"}, 6, 8
    ),
    "DafkaTransactionsHang": Scene(
        {f"dafka_partitions_with_late_transactions{{{GATEWAY}}}": "0x5 3x20"}, 10, 12
    ),
    "DafkaPartitionsUnderReplicated": Scene(
        {f"dafka_partitions_under_replicated{{{GATEWAY}}}": "0x5 3x20"}, 14, 17
    ),
    "DafkaCatchUpStuck": Scene(
        {f'dafka_store_unconfirmed_segments{{{GATEWAY},store="s3"}}': "0x5 3x100"}, 60, 70
    ),
    "DafkaCatalogTooLarge": Scene(
        {f'dafka_catalog_too_large_bytes{{{GATEWAY},store="s3"}}': "_x5 70000000x20"}, 9, 12
    ),
    "DafkaCompactionFails": Scene({f"dafka_compaction_failures_total{{{GATEWAY}}}": "0+1x100"}, 10, 30),
    "DafkaProduceSlow": Scene(
        {
            f'dafka_request_seconds_bucket{{{GATEWAY},api="Produce",le="0.5"}}': "0x100",
            f'dafka_request_seconds_bucket{{{GATEWAY},api="Produce",le="1"}}': "0+600x100",
            f'dafka_request_seconds_bucket{{{GATEWAY},api="Produce",le="+Inf"}}': "0+600x100",
            f'dafka_requests_total{{{GATEWAY},api="Produce"}}': "0+600x100",
        },
        9,
        15,
    ),
    "DafkaErrors": Scene(
        {
            f'dafka_partition_errors_total{{{GATEWAY},api="Fetch",error="E"}}': "0x5 0+6x50",
            f'dafka_requests_total{{{GATEWAY},api="Fetch"}}': "0+120x100",
        },
        14,
        20,
    ),
    "DafkaConnectionsRefused": Scene(
        {f'dafka_connections_refused_total{{{GATEWAY},reason="all"}}': "0x5 0+1x50"}, 14, 20
    ),
    "DafkaMemoryShort": Scene({f'dafka_memory_waiting{{{GATEWAY},what="large answers"}}': "0x5 2x50"}, 9, 12),
    "DafkaRequestFailed": Scene(
        {f'dafka_connections_closed_total{{{GATEWAY},reason="bug"}}': "0x5 1x5"}, 5, 8
    ),
    "DafkaDiskFull": Scene(
        {
            f"dafka_store_disk_free_bytes{{{STORE}}}": "50x5 4x20",
            f"dafka_store_disk_size_bytes{{{STORE}}}": "100x30",
        },
        6,
        8,
    ),
    "DafkaDiskFills": Scene(
        {
            f"dafka_store_disk_free_bytes{{{STORE}}}": "50x5 10x20",
            f"dafka_store_disk_size_bytes{{{STORE}}}": "100x30",
        },
        9,
        12,
    ),
    "DafkaDiskFullSoon": Scene(
        {
            f"dafka_store_disk_free_bytes{{{STORE}}}": "3900-20x100",
            f"dafka_store_disk_size_bytes{{{STORE}}}": "10000x100",
        },
        10,
        20,
    ),
    "DafkaFsyncSlow": Scene(
        {
            f'dafka_store_fsync_seconds_bucket{{{STORE},le="0.1"}}': "0x100",
            f'dafka_store_fsync_seconds_bucket{{{STORE},le="0.5"}}': "0+60x100",
            f'dafka_store_fsync_seconds_bucket{{{STORE},le="+Inf"}}': "0+60x100",
        },
        9,
        15,
    ),
    "DafkaWritesStall": Scene({f"dafka_store_stalls_total{{{STORE}}}": "0x5 0+1x50"}, 9, 15),
    "DafkaDamageNotRepairable": Scene({f"dafka_store_differing_segments{{{STORE}}}": "0x5 1x50"}, 5, 7),
    "DafkaDamage": Scene({f"dafka_store_damaged_segments{{{STORE}}}": "0x5 1x100"}, 60, 70),
    "DafkaGroupLate": Scene({f"dafka_group_lag_seconds{{{GROUP}}}": "0x5 400x50"}, 14, 17),
    "DafkaGroupStalled": Scene(
        {
            f"dafka_group_lag_seconds{{{GROUP}}}": "0x5 0+60x60",
            f"dafka_group_position_records{{{GROUP}}}": "0+10x5 50x60",
        },
        15,
        25,
    ),
    "DafkaGroupFallsBehind": Scene(
        {
            f"dafka_group_lag_records{{{GROUP}}}": "2000+10x100",
            f"dafka_group_lag_seconds{{{GROUP}}}": "5x100",
        },
        25,
        40,
    ),
    "DafkaGroupLagUnknown": Scene(
        {f"dafka_group_lag_unknown_partitions{{{GROUP}}}": "0x5 1x2 0x5 4x30"}, 27, 31
    ),
    "DafkaGroupLostRecords": Scene({f"dafka_group_lost_records{{{GROUP}}}": "0x5 7x20"}, 6, 8),
    "DafkaGroupsRebalance": Scene(
        {
            f"dafka_group_rebalances_total{{{GATEWAY}}}": "0x5 0+10x60",
            f'dafka_groups{{{GATEWAY},state="Stable"}}': "2x70",
        },
        12,
        40,
    ),
    "DafkaSeriesDropped": Scene({f'dafka_dropped_series{{{GATEWAY},kind="group"}}': "0x5 3x100"}, 60, 70),
}


def test_each_alert_has_a_scene() -> None:
    assert sorted(SCENES) == sorted(alerts())


@pytest.mark.parametrize("rules", ["as they are", "quick"])
def test_promtool_finds_nothing_to_say(rules: str, tmp_path: Path) -> None:
    file = RULES
    if rules == "quick":
        file = tmp_path / "rules.yaml"
        file.write_text(quick_rules())
    run("check", "rules", "--lint=all", "--lint-fatal", str(file))


def test_each_alert_fires_after_its_time_and_not_before(tmp_path: Path) -> None:
    tests = [
        {
            "name": f"{alert} {when}",
            "interval": "1m",
            "input_series": [{"series": s, "values": values} for s, values in scene.series.items()],
            "promql_expr_test": [
                {
                    "expr": f'count(ALERTS{{alertname="{alert}",alertstate="firing"}}) or vector(0)',
                    "eval_time": f"{minute}m",
                    "exp_samples": [{"labels": "{}", "value": value}],
                }
            ],
        }
        for alert, scene in SCENES.items()
        for when, minute, value in (("is quiet", scene.quiet, 0), ("fires", scene.firing, 1))
    ]
    file = tmp_path / "tests.yaml"
    file.write_text(json.dumps({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests}))
    run("test", "rules", str(file))


def test_each_alert_leads_to_a_heading() -> None:
    pages: dict[str, set[str]] = {}
    found = runbooks()
    assert sorted(found) == sorted(alerts())
    for url in found.values():
        page, _, anchor = url.partition("#")
        assert anchor in pages.setdefault(page, anchors(ROOT / page)), url


def test_rules_name_metrics_that_are_served() -> None:
    served = {one.name for section in SECTIONS for one in metrics_of(section)}
    for name in re.findall(r"(?<![:\w#-])(dafka_[a-z_]+)(?![\w:])", RULES.read_text()):
        assert name.removesuffix("_bucket") in served, name


def run(*arguments: str) -> None:
    done = subprocess.run([require("promtool"), *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
