"""Tests of librdkafka's suite over listeners that ask who comes: `python -m librdkafka.secured [WAY ...]`, in
compat-tests, with `dafka` installed. It exits with the number of tests that do not pass.

The server asks again who is there every two seconds: 0142 is about that, and the others have to bear it.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[2]))  # for tests.peers

from harness.scenarios import REAUTHENTICATING
from harness.secured import SecuredServer
from harness.suite_folders import SuiteFolder, suite_folders
from harness.suite_run import states_in
from librdkafka.program import run_tests

WAYS: Final = {
    "SSL": ("SSL", ""),
    "PLAIN": ("SASL_PLAINTEXT", "PLAIN"),
    "SCRAM-SHA-256": ("SASL_SSL", "SCRAM-SHA-256"),
    "SCRAM-SHA-512": ("SASL_SSL", "SCRAM-SHA-512"),
}
EVERYWHERE: Final = ("0001", "0005", "0012", "0017", "0030", "0057", "0073")
PIECES: Final = (
    *("0135/do_test:", "0142/do_test_consumer:", "0142/do_test_producer:", "0142/do_test_txn_producer:"),
)
"""Of the tests of passwords and of sessions; their others are of share groups and of unsecured tokens."""


def main() -> int:
    [suite] = suite_folders(["librdkafka"])
    home = suite.bring()
    failed = 0
    # A piece makes topics with three copies.
    arguments = ("--partitions", str(suite.partitions), "--relax-replication-factor")
    with SecuredServer(REAUTHENTICATING, *arguments) as server:
        for way in sys.argv[1:] or WAYS:
            protocol, mechanism = WAYS[way]
            conf = _conf(server.environment, protocol, mechanism)
            for what in (*EVERYWHERE, *(PIECES if mechanism else ())):
                failed += not _passes(suite, home, way, what, conf)
        if failed:
            print("\n".join(line for line in server.log.splitlines() if "groups.coordinator" not in line))
    return failed


def _conf(server: Mapping[str, str], protocol: str, mechanism: str) -> dict[str, str]:
    login = {
        "sasl.mechanism": mechanism,
        "sasl.username": server["COMPAT_USER"],
        "sasl.password": server["COMPAT_PASSWORD"],
    }
    return {
        "bootstrap.servers": server[f"COMPAT_{protocol}"],
        "security.protocol": protocol,
        "ssl.ca.location": server["COMPAT_CA"],
        **(login if mechanism else {}),
    }


def _passes(suite: SuiteFolder, home: Path, way: str, what: str, conf: dict[str, str]) -> bool:
    environment = {**suite.environment(home), "COMPAT_AUTO_CREATE": "1"}
    os.environ.update(environment)
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        status = run_tests(what, conf, report)
        states = set(states_in(report).values())
    passed = status == 0 and "PASSED" in states
    print(f"{way} {what}: {'pass' if passed else json.dumps([status, *states])}", flush=True)
    return passed


if __name__ == "__main__":
    raise SystemExit(main())
