"""Brings franz-go with its tests from the Go module proxy, as suite.toml pins it, and compiles them.

`python -m franz_go_tests.bring FOLDER` leaves in FOLDER the program `kgo.test`.
"""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

from harness.folders import BRING_TIMEOUT_SECONDS, HERE, run_to_its_end

from tests.peers.go import go_program

SUITE = Path(__file__).parent


def main() -> None:
    folder = Path(sys.argv[1])
    with (SUITE / "suite.toml").open("rb") as file:
        about = tomllib.load(file)
    go = go_program(HERE / "franz_go" / "go.mod")
    sources = _downloaded(go, about["package"], about["integrity"], folder) / "pkg" / "kgo"
    run_to_its_end(["nice", go, "test", "-c", "-o", str(folder / "kgo.test"), "."], cwd=sources)


def _downloaded(go: str, package: str, integrity: str, folder: Path) -> Path:
    """The module's sources, which must have the sum that go.sum has as well."""
    said = subprocess.run(
        [go, "mod", "download", "-json", package],
        cwd=folder,
        stdout=subprocess.PIPE,
        timeout=BRING_TIMEOUT_SECONDS,
        check=True,
    ).stdout
    module = json.loads(said)
    if module["Sum"] != integrity:
        raise SystemExit(f"{package} has the sum {module['Sum']} and should have {integrity}")
    return Path(module["Dir"])


if __name__ == "__main__":
    main()
