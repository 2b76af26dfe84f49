"""Tables in a terminal: names that strangers chose do nothing there."""

from __future__ import annotations

import pytest

from dafka.commands.tables import MAX_CELL, plain, print_table
from dafka.commands.top_view import Group, Look, lines


def test_what_a_terminal_would_obey_is_shown_by_its_number() -> None:
    assert plain("a\x1b]0;title\x07\n\u202eb\x9b2J") == r"a\x1b]0;title\x07\n\u202eb\x9b2J"
    assert plain("caf\u00e9 \u8ba2\u5355-1") == "caf\u00e9 \u8ba2\u5355-1"


def test_a_long_name_is_cut() -> None:
    assert plain("g" * 32_000) == "g" * (MAX_CELL - 1) + "\u2026"
    assert plain("t" * 249) == "t" * 249


def test_a_table_stays_one(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("group", "state"), [("a\x1b[2J", "Empty"), ("b", "Stable")])
    assert capsys.readouterr().out == "group     state\n" + r"a\x1b[2J  Empty" + "\nb         Stable\n"


def test_dafka_top_shows_groups_of_any_name() -> None:
    seen = Look(at=0.0, brokers=1)
    seen.groups.append(Group("a\x1b[2J", "Empty", 0, {}))
    assert any(line.startswith(r"a\x1b[2J  Empty") for line in lines(seen, seen, "b:1"))


def test_dafka_top_sums_topics_up_and_has_the_busiest_first() -> None:
    ends = {("a", 0): 5, ("a", 1): 7, ("b", 0): 90}
    before = Look(0.0, 1, dict.fromkeys(ends, 2), ends)
    now = Look(2.0, 1, dict.fromkeys([*ends, ("c", 0)], 2), {**ends, ("a", 1): 27, ("c", 0): 3})
    rows = [line.split() for line in lines(before, now, "b:1")[3:6]]
    assert rows == [
        ["a", "2", "28", "32", "10.0"],
        ["b", "1", "88", "90", "0.0"],
        ["c", "1", "1", "3", "0.0"],
    ]


def test_dafka_top_shows_very_many_topics_at_once() -> None:
    """What looks at all partitions for each topic takes ten seconds for these."""
    ends = {(f"t{topic}", index): 9 for topic in range(5_000) for index in range(2)}
    seen = Look(0.0, 1, dict.fromkeys(ends, 0), ends)
    assert len(lines(seen, seen, "b:1")) > 5_000
