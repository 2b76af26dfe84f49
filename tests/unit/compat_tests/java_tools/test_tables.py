"""What Kafka's command-line tools print is read as the values that it shows."""

from __future__ import annotations

import pytest
from java_tools.tables import config_lines, table


def test_rows_by_column() -> None:
    lines = [
        "GROUP           COORDINATOR (ID)          ASSIGNMENT-STRATEGY  STATE                #MEMBERS",
        "payments        127.0.0.1:9092  (1)       range                Stable               2",
    ]
    wanted = {
        "GROUP": "payments",
        "COORDINATOR (ID)": "127.0.0.1:9092 (1)",
        "ASSIGNMENT-STRATEGY": "range",
        "STATE": "Stable",
        "#MEMBERS": "2",
    }
    assert table(["Warning: something", *lines], "GROUP") == [wanted]


def test_rows_of_several_tables_and_cells_that_are_missing() -> None:
    lines = ["GROUP TYPE PROTOCOL", "a Classic consumer", "GROUP TYPE PROTOCOL", "b Classic"]
    assert [tuple(row.values()) for row in table(lines, "GROUP")] == [
        ("a", "Classic", "consumer"),
        ("b", "Classic", ""),
    ]


def test_a_row_that_does_not_fit_is_an_error() -> None:
    with pytest.raises(AssertionError, match="does not fit"):
        table(["A B", "1 2 3"], "A")
    assert table(["no table here"], "A") == []


def test_configs_with_their_sources() -> None:
    sources = "DYNAMIC_TOPIC_CONFIG:cleanup.policy=compact,delete, DEFAULT_CONFIG:log.cleanup.policy=delete"
    lines = [
        "Dynamic configs for topic t are:",
        f"  cleanup.policy=compact,delete sensitive=false synonyms={{{sources}}}",
        "  log.dirs=null sensitive=false synonyms={}",
        "  authorizer.class.name= sensitive=false synonyms={DEFAULT_CONFIG:authorizer.class.name=}",
    ]
    assert config_lines(lines) == {
        "cleanup.policy": ("compact,delete", sources.split(", ")),
        "log.dirs": ("null", []),
        "authorizer.class.name": ("", ["DEFAULT_CONFIG:authorizer.class.name="]),
    }
