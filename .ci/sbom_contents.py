"""Fail unless an SBOM names what an environment holds: all of it, nothing else, as pinned, with licences.

Arguments: the SBOM (CycloneDX, JSON), the environment, and the constraints.
"""

import json
import re
import sys
from importlib.metadata import distributions
from pathlib import Path

OURS = "dafka-gateway"


def normal(name: str) -> str:
    """A package's name as indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pinned(constraints: Path) -> dict[str, str]:
    """The version of each package that the constraints name."""
    lines = (line for line in constraints.read_text().splitlines() if not line.startswith("#"))
    return {normal(name): version for name, _, version in (line.partition("==") for line in lines)}


def main(sbom: str, environment: str, constraints: str) -> None:
    bom = json.loads(Path(sbom).read_text())
    named = {normal(one["name"]): one for one in bom["components"]}
    versions = {name: one["version"] for name, one in named.items()}

    folders = map(str, Path(environment).glob("lib/python*/site-packages"))
    installed = {normal(one.metadata["Name"]): one.version for one in distributions(path=[*folders])}
    main_component = bom["metadata"]["component"]
    if installed.pop(OURS) != main_component["version"] or main_component["name"] != OURS:
        raise SystemExit(f"{sbom} is about {main_component['name']} {main_component['version']}")
    if versions != installed:
        raise SystemExit(f"{sbom} and the environment differ: {versions.items() ^ installed.items()}")

    pins = pinned(Path(constraints))
    if loose := {name for name, version in versions.items() if pins.get(name) != version}:
        raise SystemExit(f"{sbom} has what the constraints do not pin so: {sorted(loose)}")
    if unlicensed := [name for name, one in named.items() if not one.get("licenses")]:
        raise SystemExit(f"{sbom} does not say the licence of {unlicensed}")
    parts = (("serialNumber", bom), ("timestamp", bom["metadata"]))
    if varying := [key for key, part in parts if key in part]:
        raise SystemExit(f"{sbom} is another one each time: {varying}")
    print(f"{Path(sbom).name}: {len(named)} packages, each with its version and licence")


if __name__ == "__main__":
    main(*sys.argv[1:])
