"""The page of metrics has every metric, each named as Prometheus' conventions have it."""

from __future__ import annotations

import subprocess

import pytest

from gateway.common.metrics import Described
from tests.docs.metrics_page import PAGE, SECTIONS, metrics_of, page
from tests.peers.requirements import require

UNITS = {"seconds", "bytes", "records"}

ALL = [one for section in SECTIONS for one in metrics_of(section)]


def test_the_tables_are_the_codes_own() -> None:
    text = PAGE.read_text()
    assert text == page(text), "run: python -m tests.docs.metrics_page"


def test_no_process_serves_two_metrics_of_one_name() -> None:
    names = [one.name for one in ALL]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.name)
def test_names_say_type_and_unit(one: Described) -> None:
    name, kind, text, _ = one
    assert name.startswith("dafka_")
    assert text.endswith((".", "0."))
    assert name.endswith("_total") == (kind == "counter")
    if kind == "histogram":
        assert name.rpartition("_")[2] in UNITS
    assert not {"ms", "milliseconds", "kb", "mb", "sum", "count", "bucket"} & set(name.split("_"))


def test_promtool_finds_nothing() -> None:
    text = "".join(
        f"# HELP {one.name} {one.help}\n# TYPE {one.name} {one.kind}\n" + _sample(one.name, one.kind)
        for one in ALL
    )
    checked = subprocess.run(
        [require("promtool"), "check", "metrics"], input=text, capture_output=True, text=True, check=False
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def _sample(name: str, kind: str) -> str:
    if kind != "histogram":
        return f"{name} 1\n"
    return f'{name}_bucket{{le="+Inf"}} 1\n{name}_sum 1\n{name}_count 1\n'
