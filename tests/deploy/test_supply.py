"""What the project is made of is named, with versions and licences, and can be looked up."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.deploy.image import ROOT

CONSTRAINTS = ROOT / "constraints.txt"

LICENCE_NOT_READ = {"asttokens", "kubernetes-validate", "protobuf"}
"""It stands in words of their own in their metadata. None is shipped: `.ci/sbom_contents.py` refuses that."""


_CONTENTS = runpy.run_path(str(ROOT / ".ci" / "sbom_contents.py"))
normal: Callable[[str], str] = _CONTENTS["normal"]


def pins() -> dict[str, str]:
    found: dict[str, str] = _CONTENTS["pinned"](CONSTRAINTS)
    return found


def sbom_of_this_environment() -> bytes:
    command = ["-m", "cyclonedx_py", "environment", "--output-reproducible", "--no-validate"]
    return subprocess.run(
        [sys.executable, *command, "--pyproject", str(ROOT / "pyproject.toml"), sys.executable],
        capture_output=True,
        check=True,
    ).stdout


def test_an_sbom_names_each_pinned_package_with_its_version_and_licence() -> None:
    made = sbom_of_this_environment()
    bom = json.loads(made)
    assert (bom["metadata"]["component"]["name"], "serialNumber" in bom) == ("dafka-gateway", False)
    named = {normal(one["name"]): one for one in bom["components"]}
    assert {name: named[name]["version"] for name in pins() if name in named} == pins()
    assert {name for name in pins() if not named[name].get("licenses")} == LICENCE_NOT_READ
    assert sbom_of_this_environment() == made, "the same packages give the same bytes"


class List(BaseHTTPRequestHandler):
    """A list of vulnerabilities that speaks OSV's protocol; `server.flaws` is by name of package."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked[asked["package"]["name"]] = asked["version"]  # type: ignore[attr-defined]
        answer = json.dumps(self.server.flaws.get(asked["package"]["name"], {})).encode()  # type: ignore[attr-defined]
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_words: Any) -> None:
        pass


@pytest.fixture
def osv() -> Iterator[ThreadingHTTPServer]:
    with ThreadingHTTPServer(("127.0.0.1", 0), List) as server:
        server.asked, server.flaws = {}, {}  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def audit(address: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / ".ci/audit_dependencies.py"), str(CONSTRAINTS)]
    return subprocess.run(
        [*command, "-s", "osv", "--osv-url", address], capture_output=True, text=True, check=False
    )


def test_each_pinned_version_is_looked_up_and_what_is_known_fails(osv: Any) -> None:
    address = f"http://127.0.0.1:{osv.server_port}/v1/query"
    done = audit(address)
    assert (done.returncode, done.stdout) == (
        0,
        f"{len(pins())} packages looked up, 0 known vulnerabilities\n",
    )
    assert osv.asked == pins()

    ranges = [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "99"}]}]
    affected = [{"package": {"name": "h11", "ecosystem": "PyPI"}, "ranges": ranges}]
    osv.flaws["h11"] = {"vulns": [{"id": "GHSA-1", "summary": "a chunk's end", "affected": affected}]}
    done = audit(address)
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith(f"h11 {pins()['h11']}: GHSA-1, fixed in 99: a chunk's end\n")


def test_a_list_that_cannot_be_read_is_no_good_news() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), List) as closed:
        pass
    done = audit(f"http://127.0.0.1:{closed.server_port}/v1/query")
    assert done.returncode == 2, done.stdout
    assert done.stdout == ""
    assert "The list of known vulnerabilities cannot be read: " in done.stderr
    assert "api.osv.dev" in done.stderr
