"""Log lines for people and for machines."""

import json
import logging
import re
from collections.abc import Iterator

import pytest

from dafka.commands.logs import set_up_logs, tell

log = logging.getLogger("gateway.somewhere")


@pytest.fixture(autouse=True)
def restored_logging() -> Iterator[None]:
    root = logging.root
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(capture=False)


def test_text(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logs("info", "text")
    log.debug("unseen")
    log.info("topic %s", "orders")
    out, err = capsys.readouterr()
    assert out == ""
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z INFO gateway\.somewhere: topic orders\n", err
    ), err


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logs("warning", "json")
    log.info("unseen")
    log.warning('a "quoted"\nline: %d', 3, extra={"partition": 7, "path": object})
    try:
        raise KeyError("gone")
    except KeyError:
        log.exception("failed")
    lines = capsys.readouterr().err.splitlines()
    first, second = (json.loads(line) for line in lines)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", first.pop("time"))
    assert first == {
        "level": "warning",
        "logger": "gateway.somewhere",
        "message": 'a "quoted"\nline: 3',
        "partition": 7,
        "path": "<class 'object'>",
    }
    assert second["message"] == "failed"
    assert second["exception"].endswith("KeyError: 'gone'")


@pytest.mark.parametrize(("level", "seen"), [("debug", 4), ("info", 3), ("warning", 2), ("error", 1)])
def test_levels(capsys: pytest.CaptureFixture[str], level: str, seen: int) -> None:
    set_up_logs(level, "text")
    for number in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR):
        log.log(number, "x")
    assert len(capsys.readouterr().err.splitlines()) == seen


def test_the_last_line_is_plain_for_people_and_json_for_machines(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logs("error", "text")
    tell(2, "no such thing")
    assert capsys.readouterr().err == "dafka: no such thing\n"
    set_up_logs("error", "json")
    tell(3, "refused")
    fields = json.loads(capsys.readouterr().err)
    assert (fields["level"], fields["message"], fields["exit_code"]) == ("critical", "refused", 3)
