"""What docs/testing.md tells tests in other languages to write, compiled and run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.applications.test_ephemeral import SECONDS
from tests.docs.constants_page import ROOT
from tests.peers.go import go_program
from tests.peers.requirements import require

PAGE = (ROOT / "docs" / "testing.md").read_text()


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """With a `dafka` on the path, which is this checkout's."""
    program = tmp_path / "bin" / "dafka"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m dafka "$@"\n')
    program.chmod(0o755)
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("DAFKA_")},
        "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "TMPDIR": str(tmp_path),
    }


def snippet(language: str, having: str) -> str:
    (found,) = [
        text
        for text in re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
        if having in text
    ]
    assert isinstance(found, str)
    return found


def bootstrap_said_by(command: list[str], directory: Path, environment: dict[str, str]) -> None:
    """It prints where the server is, which serves while the program runs, and ends with it."""
    done = subprocess.run(
        command,
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS * 2,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"bootstrap 127\.0\.0\.1:[1-9]\d*$", done.stdout, re.MULTILINE), done.stdout


def test_java(tmp_path: Path, environment: dict[str, str]) -> None:
    require("java")
    (tmp_path / "Snippet.java").write_text(
        "import java.nio.file.*;\npublic class Snippet {\n"
        "  public static void main(String[] a) throws Exception {\n"
        + snippet("java", "ProcessBuilder")
        + '    System.out.println("bootstrap " + bootstrap);\n  }\n}\n'
    )
    bootstrap_said_by(["java", "Snippet.java"], tmp_path, environment)


def test_javascript(tmp_path: Path, environment: dict[str, str]) -> None:
    require("node")
    (tmp_path / "snippet.mjs").write_text(
        'import fs from "fs"; import os from "os"; import path from "path";'
        'import { spawn } from "child_process";\n'
        + snippet("js", "spawn(")
        + 'console.log("bootstrap " + bootstrap); process.exit(0);\n'
    )
    bootstrap_said_by(["node", "snippet.mjs"], tmp_path, environment)


def test_go(tmp_path: Path, environment: dict[str, str]) -> None:
    (tmp_path / "go.mod").write_text("module snippet\n\ngo 1.19\n")
    (tmp_path / "snippet.go").write_text(
        'package main\nimport ("fmt"; "os"; "os/exec"; "path/filepath"; "time")\n'
        'func main() {\ndir, _ := os.MkdirTemp("", "dafka")\n'
        + snippet("go", "exec.Command")
        + 'fmt.Print("bootstrap ", string(bootstrap))\n}\n'
    )
    bootstrap_said_by([go_program(tmp_path / "go.mod"), "run", "snippet.go"], tmp_path, environment)


def test_python(tmp_path: Path, environment: dict[str, str]) -> None:
    (tmp_path / "test_snippet.py").write_text(
        "import unittest\n\ndef setUpModule():\n    global bootstrap\n"
        + "".join(f"    {line}\n" for line in snippet("python", "addModuleCleanup").splitlines())
        + "\nclass It(unittest.TestCase):\n    def test_it(self):\n        print('bootstrap ' + bootstrap)\n"
    )
    bootstrap_said_by([sys.executable, "-m", "unittest", "test_snippet"], tmp_path, environment)
