"""The dashboard is made from the code, and asks for what there is."""

from __future__ import annotations

import re
from itertools import combinations

from tests.docs.metrics_page import SECTIONS, metrics_of
from tests.monitoring.dashboard import COLUMNS, FILE, dashboard, queries, text


def test_the_file_is_the_codes_own() -> None:
    assert FILE.read_text() == text(), "run: python -m tests.monitoring.dashboard"


def test_no_panel_covers_another() -> None:
    places = [panel["gridPos"] for panel in dashboard()["panels"]]
    for one, other in combinations(places, 2):
        apart = (
            one["x"] + one["w"] <= other["x"]
            or other["x"] + other["w"] <= one["x"]
            or one["y"] + one["h"] <= other["y"]
            or other["y"] + other["h"] <= one["y"]
        )
        assert apart, (one, other)
    assert all(place["x"] + place["w"] <= COLUMNS for place in places)
    numbers = [panel["id"] for panel in dashboard()["panels"]]
    assert len(numbers) == len(set(numbers))


def test_every_query_names_a_metric_that_is_served_and_the_mesh() -> None:
    served = {one.name for section in SECTIONS for one in metrics_of(section)}
    for title, query in queries():
        names = re.findall(r"\b(dafka_\w+|process_\w+|up|ALERTS)(?={)", query.expression)
        assert names, title
        assert all(
            name.removesuffix("_bucket") in served or not name.startswith("dafka_") for name in names
        ), title
        assert query.expression.count('job=~"$job"') == len(names), title
