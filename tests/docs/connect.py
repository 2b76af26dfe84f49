"""The programs of examples/connect: how each is got ready and run, and where the page shows it."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.docs.constants_page import ROOT
from tests.peers.cache import cached_folder
from tests.peers.go import go_program
from tests.peers.java import SHORT_LIVED, client_command
from tests.peers.requirements import require, unavailable

PAGE = ROOT / "docs" / "connect.md"
EXAMPLES = ROOT / "examples" / "connect"
BUILD_SECONDS = 900

_SHOWN = re.compile(r"(<!-- (\S+) -->\n```(\w+)\n).*?(```\n)", re.DOTALL)


@dataclass(frozen=True)
class Hello:
    """A program that sends one record and reads it back.

    `file` is below examples/connect; `words` is the line that it prints; `command` brings what it needs,
    builds it where that is to be done, and returns its command line without the address and the topic.
    """

    file: str
    words: str
    command: Callable[[], list[str]]
    long: bool = False
    """Whether it takes minutes to build, the first time."""


def shown(text: str) -> str:
    """The page with the text of each program put where its file is named."""

    def block(found: re.Match[str]) -> str:
        return f"{found[1]}{(ROOT / found[2]).read_text()}{found[4]}"

    return _SHOWN.sub(block, text)


def files_shown() -> list[str]:
    """The files that the page names above its code blocks."""
    return [str(found[2]) for found in _SHOWN.finditer(PAGE.read_text())]


def _python(name: str) -> Hello:
    words = {"kafka_python": "kafka-python", "confluent": "confluent-kafka"}.get(name, name)
    file = f"python/hello_{name}.py"
    return Hello(file, f"hello from {words}", lambda: [sys.executable, str(EXAMPLES / file)])


def _java() -> list[str]:
    return client_command("Hello", sources=EXAMPLES / "java", options=SHORT_LIVED)


def _go() -> list[str]:
    source = EXAMPLES / "go"
    return [
        str(
            _built(source, partial(_build, [go_program(source / "go.mod"), "build", "-o", "hello"])) / "hello"
        )
    ]


def _javascript() -> list[str]:
    program = [require("npm"), "ci", "--silent", "--no-audit", "--no-fund"]
    folder = _built(EXAMPLES / "javascript", partial(_build, program))
    return [require("node"), str(folder / "hello.js")]


def _rust() -> list[str]:
    program = [require("cargo"), "build", "--quiet", "--locked"]
    return [str(_built(EXAMPLES / "rust", partial(_build, program)) / "target" / "debug" / "hello")]


def compiler_with_librdkafka() -> str:
    """The command that makes a program in C of librdkafka's."""
    if not Path("/usr/include/librdkafka/rdkafka.h").exists():
        unavailable("librdkafka's headers are not installed: apt-get install librdkafka-dev")
    return require("gcc")


def _c() -> list[str]:
    compiler = compiler_with_librdkafka()
    program = [compiler, "-Wall", "-Wextra", "-Werror", "-o", "hello", "hello.c", "-lrdkafka"]
    return [str(_built(EXAMPLES / "c", partial(_build, program)) / "hello")]


def _built(source: Path, fill: Callable[[Path, Path], None]) -> Path:
    files = sorted(path for path in source.iterdir() if path.is_file())
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:8]
    return cached_folder(f"hello-{source.name}-{digest}", partial(fill, source))


def _build(command: list[str], source: Path, folder: Path) -> None:
    shutil.copytree(source, folder, dirs_exist_ok=True)
    # Rust's client compiles all of librdkafka; for one record it need not be fast.
    environment = {**os.environ, "CFLAGS": "-O0"}
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]


HELLOS = (
    _python("kafka_python"),
    _python("confluent"),
    _python("aiokafka"),
    Hello("java/Hello.java", "hello from Java", _java),
    Hello("go/hello.go", "hello from Go", _go),
    Hello("javascript/hello.js", "hello from JavaScript", _javascript),
    Hello("rust/hello.rs", "hello from Rust", _rust, long=True),
    Hello("c/hello.c", "hello from C", _c),
)

if __name__ == "__main__":
    PAGE.write_text(shown(PAGE.read_text()))
