"""`dafka mesh`: what it shows of each store, and of native records."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from dafka.commands import mesh as commands
from dafka.commands.mesh import mesh


def entry(name: str, *, live: bool, refused: str | None = None) -> dict[str, Any]:
    return {
        "id": 1000,
        "name": name,
        "state": "admitted",
        "live": live,
        "refused": refused,
        "free_bytes": 1024,
        "silent_seconds": 0.3,
        "unconfirmed_segments": 0,
    }


def test_a_store_that_is_refused_is_not_shown_as_one_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    stores = [
        entry("here", live=True),
        entry("set-back", live=False, refused="never had that start"),
        entry("away", live=False),
    ]
    status = {"cluster": "c", "ready": 1, "partitions": 1, "stores": stores, "peers": [], "troubled": []}
    monkeypatch.setattr("dafka.operators.socket.ask", lambda *_: status)
    shown = CliRunner().invoke(mesh, ["status"]).output.splitlines()
    rows = {row[1]: row[3] for row in (line.split() for line in shown[3:6])}
    assert rows == {"here": "yes", "set-back": "refused", "away": "no"}


def subject(records: int, **more: Any) -> dict[str, Any]:
    return {
        "topic": "readings",
        "subject": "sensors",
        "addresses": 2,
        "records": records,
        "lag": 3,
        "waiting_bytes": 0,
        "lost": 0,
        "refused": 1,
        "rewritten": 0,
        **more,
    }


def shown_subjects(
    monkeypatch: pytest.MonkeyPatch,
    answers: list[list[dict[str, Any]]],
    *arguments: str,
    published: list[dict[str, Any]] | None = None,
) -> tuple[str, list[float]]:
    """What is shown, and for how long it waited."""
    waits: list[float] = []
    told = [{"native": native, "published": published or []} for native in answers]
    monkeypatch.setattr("dafka.operators.socket.ask", lambda *_, **__: told.pop(0))
    monkeypatch.setattr("time.sleep", waits.append)
    result = CliRunner().invoke(mesh, ["subjects", *arguments], catch_exceptions=False)
    assert result.exit_code == 0
    return result.output, waits


def test_subjects_with_their_rates_and_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    named = [
        {"address": "A1", "partition": 0, "next": 7},
        {"address": "B2", "partition": 1, "next": None},
    ]
    answers = [[subject(10)], [subject(25, addresses=5, named=named)]]
    shown, waits = shown_subjects(monkeypatch, answers, "--addresses")
    rows = [line.split() for line in shown.splitlines()]
    assert rows[1] == ["readings", "sensors", "5", "25", "15", "3", "0", "1", "0"]
    assert rows[4:6] == [["readings", "A1", "0", "7"], ["readings", "B2", "1", "?"]]
    assert rows[6] == ["and", "3", "more", "addresses"]
    assert waits == [commands.RATE_SECONDS]


@pytest.mark.parametrize("before", [[], [subject(99)]], ids=["new", "begun again"])
def test_a_subject_that_has_begun_meanwhile_has_no_rate(
    monkeypatch: pytest.MonkeyPatch, before: list[dict[str, Any]]
) -> None:
    shown, _ = shown_subjects(monkeypatch, [before, [subject(5)]], "--json")
    assert json.loads(shown) == {"native": [subject(5, per_second=0)], "published": []}


def test_without_subjects_it_says_how_to_have_one(monkeypatch: pytest.MonkeyPatch) -> None:
    shown, waits = shown_subjects(monkeypatch, [[], []])
    assert "dafka topics create NAME --native SUBJECT" in shown
    assert waits == []


@pytest.mark.parametrize("native", [[], [subject(5)]], ids=["alone", "beside others"])
def test_published_topics_with_their_subjects(
    monkeypatch: pytest.MonkeyPatch, native: list[dict[str, Any]]
) -> None:
    published = [{"topic": "orders", "subject": "orders.values", "partitions": 3, "offsets": 1200}]
    shown, _ = shown_subjects(monkeypatch, [native, native], published=published)
    rows = [line.split() for line in shown.splitlines()]
    assert rows[-2:] == [
        ["published", "topic", "subject", "partitions", "offsets"],
        ["orders", "orders.values", "3", "1200"],
    ]
    assert ("readings" in shown) == bool(native)
