"""A Prometheus of Debian's package, with our rules, that scrapes a mesh once a second."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from tests.monitoring.rules import quick_rules
from tests.peers.ports import free_ports
from tests.peers.process import ServerProcess
from tests.peers.requirements import require

JOB = "dafka"

CONFIGURATION = """\
global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}
rule_files: [rules.yaml]
scrape_configs:
  - job_name: %s
    static_configs:
      - targets: %s
"""


class Prometheus(ServerProcess):
    """A context manager around a running one. Samples are what its API gives: labels and values."""

    def __init__(self, directory: Path, targets: Sequence[str]) -> None:
        super().__init__(directory)
        (directory / "rules.yaml").write_text(quick_rules())
        (directory / "prometheus.yaml").write_text(CONFIGURATION % (JOB, json.dumps(list(targets))))
        self._address = f"127.0.0.1:{free_ports(1)[0]}"
        self._targets = targets

    def __enter__(self) -> Self:
        self._spawn(
            [
                require("prometheus"),
                f"--config.file={self.directory / 'prometheus.yaml'}",
                f"--storage.tsdb.path={self.directory / 'data'}",
                f"--web.listen-address={self._address}",
            ]
        )
        self._wait_until(self._serves)
        return self

    def __exit__(self, *_exc: object) -> None:
        self.kill9()

    def _serves(self) -> bool | None:
        try:
            self.api("rules")
        except (OSError, urllib.error.URLError):
            return None
        return True

    def api(self, path: str, **arguments: str) -> Any:
        """The data of an answer. Raises HTTPError where a query is refused."""
        url = f"http://{self._address}/api/v1/{path}?{urllib.parse.urlencode(arguments)}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.load(answer)["data"]

    def query(self, expression: str) -> list[tuple[Mapping[str, str], float]]:
        """What an expression gives now."""
        found = self.api("query", query=expression)["result"]
        return [(one["metric"], float(one["value"][1])) for one in found]

    def firing(self) -> set[str]:
        """The names of the alerts that fire now."""
        return {one["labels"]["alertname"] for one in self._alerts_that_fire()}

    def _alerts_that_fire(self) -> list[dict[str, Any]]:
        return [one for one in self.api("alerts")["alerts"] if one["state"] == "firing"]

    def wait_for(self, what: Callable[[], bool], why: str, seconds: float = 90.0) -> None:
        """Until it is so. Raises AssertionError with `why` when that takes longer."""
        deadline = time.monotonic() + seconds
        while not what():
            assert time.monotonic() < deadline, f"{why}; firing: {self._alerts_that_fire()}"
            time.sleep(0.2)

    def wait_until_fires(self, *alerts: str) -> None:
        """Until all of these fire."""
        self.wait_for(lambda: set(alerts) <= self.firing(), f"{alerts} do not fire")

    def wait_until_clear(self) -> None:
        """Until all targets are up, and no alert is firing."""
        up = f"sum(up) == {len(self._targets)}"
        self.wait_for(lambda: bool(self.query(up)) and not self.firing(), "not all is well again")
