"""The command as a process: it runs on, and ends as it was asked to."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.clients.stored import committed_records, put
from tests.pipelines.processes import Pipeline, run
from tests.pipelines.transforming import JOBS, keyed_records

pytestmark = [pytest.mark.slow, pytest.mark.matrix]
NewTopic = Callable[..., str]


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)], ids=lambda one: one.name
)
def test_it_ends_between_two_batches_when_it_is_asked_to(
    bootstrap: str, new_topic: NewTopic, tmp_path: Path, number: signal.Signals
) -> None:
    """Ctrl-C goes to everything in the foreground: to its JVM and workers, too."""
    source, target = new_topic(1, "-source"), new_topic(1, "-target")
    records = keyed_records(30)
    arguments = [
        f"{JOBS}:shouts", f"--bootstrap={bootstrap}", f"--from={source}", f"--to={target}",
        f"--checkpoint={tmp_path / 'checkpoint'}",
    ]  # fmt: skip

    def written() -> list[bytes | None]:
        return [record.value for _, record in committed_records(bootstrap, target)]

    put(bootstrap, source, records[:10])
    with Pipeline(tmp_path, "transform", *arguments, "--every=500ms") as running:
        running.await_text("10 records,")
        put(bootstrap, source, records[10:20])
        running.await_until(lambda: len(written()) == 20)
        if number == signal.SIGINT:
            os.killpg(running.pid, number)
        else:
            running.terminate()
        text = running.end()
    assert "Stopped: 20 records read in" in text
    assert "Traceback" not in text
    put(bootstrap, source, records[20:])
    text = run(tmp_path, "transform", *arguments, "--once", "--json")
    assert '"rows": 10, "batches": 1, "stopped": false' in text
    assert written() == [(record.value or b"").upper() + b"!" for record in records]
    left = {path.name for path in tmp_path.iterdir() if not path.name.endswith(".log")}
    assert left == {"checkpoint"}, "nothing else is left where it was started"
