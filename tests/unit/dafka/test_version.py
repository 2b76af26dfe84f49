"""The version is said in few places, and the same in all of them."""

import re
import tomllib
from pathlib import Path
from typing import Any

from dafka.version import VERSION

ROOT = Path(__file__).parents[3]


def project(folder: Path) -> dict[str, Any]:
    table: dict[str, Any] = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    return table


def test_what_is_built_has_the_version_that_it_says() -> None:
    assert project(ROOT)["version"] == VERSION


def test_the_plugin_of_pytest_goes_with_it() -> None:
    plugin = project(ROOT / "pytest-dafka")
    assert plugin["version"] == VERSION
    assert f"dafka-gateway=={VERSION}" in plugin["dependencies"]


def test_the_image_has_it() -> None:
    assert re.findall(r"^ARG VERSION=(.*)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE) == [VERSION]
