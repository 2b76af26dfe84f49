"""docs/connect.md shows the programs of examples/connect, and each of them does what it says."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.connect import EXAMPLES, HELLOS, PAGE, Hello, files_shown, shown
from tests.peers.standalone import Standalone

SECONDS = 60


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    folder: Path = tmp_path_factory.mktemp("connect")
    arguments = ("--group-initial-rebalance-delay-ms", "0")
    with Standalone(folder / "data", *arguments, directory=folder) as standalone:
        yield standalone


def test_the_page_shows_the_programs_that_there_are() -> None:
    text = PAGE.read_text()
    assert text == shown(text), "run: python -m tests.docs.connect"
    assert files_shown() == [f"examples/connect/{one.file}" for one in HELLOS]


@pytest.mark.parametrize(
    "hello",
    [pytest.param(one, id=one.file, marks=[pytest.mark.long] if one.long else []) for one in HELLOS],
)
def test_a_program_reads_what_it_sent(server: Standalone, hello: Hello) -> None:
    command = [
        *hello.command(),
        server.bootstrap,
        f"hello-{Path(hello.file).stem}-{Path(hello.file).suffix[1:]}",
    ]
    done = subprocess.run(command, cwd=EXAMPLES, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert (done.returncode, done.stdout) == (0, hello.words + "\n"), done.stderr
