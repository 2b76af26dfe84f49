"""`dafka produce` and `dafka consume` with a tower and stores, all of them processes."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.peers.mesh import StoreProcess
from tests.peers.tower import TowerProcess

PATIENCE_SECONDS = 60


class Tools:
    """Starts console tools of one mesh, and ends what is left of them."""

    def __init__(self, tower: TowerProcess) -> None:
        at = tower.address
        self._tower = ["--tower", f"{at.host}:{at.port_in}:{at.port_out}"]
        self._running: list[subprocess.Popen[bytes]] = []

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE
        command = [sys.executable, "-m", "dafka.cli", *arguments, *self._tower]
        self._running.append(subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe))
        return self._running[-1]

    def run(self, *arguments: str, lines: bytes = b"") -> tuple[int, bytes, str]:
        """(exit code, standard output, standard error)."""
        process = self.start(*arguments)
        out, err = process.communicate(lines, PATIENCE_SECONDS)
        return process.returncode, out, err.decode()

    def close(self) -> None:
        for process in self._running:
            process.kill()
            process.communicate()


@pytest.fixture
def tower(tmp_path: Path) -> Iterator[TowerProcess]:
    with TowerProcess(tmp_path / "tower") as process:
        yield process


@pytest.fixture
def tools(tower: TowerProcess) -> Iterator[Tools]:
    made = Tools(tower)
    yield made
    made.close()


@pytest.fixture
def store(tower: TowerProcess, tmp_path: Path) -> Iterator[StoreProcess]:
    process = StoreProcess(tmp_path / "one", "one", tower).start()
    yield process
    process.kill9()


def lines(count: int, word: str = "line") -> bytes:
    return b"".join(b"%s %d\n" % (word.encode(), number) for number in range(count))


def test_lines_in_are_lines_out_now_and_later_and_after_a_restart(tools: Tools, store: StoreProcess) -> None:
    sent = lines(2000)
    live = tools.start("consume", "greetings", "--max-records", "2000", "--from-beginning")
    assert tools.run("produce", "greetings", lines=sent) == (0, b"", "")
    assert live.communicate(timeout=PATIENCE_SECONDS) == (sent, b"")
    late = ("consume", "greetings", "--from-beginning", "--max-records", "2000")
    assert tools.run(*late) == (0, sent, "")
    store.kill9()
    store.start()
    assert tools.run(*late) == (0, sent, "")


def test_odd_lines(tools: Tools, store: StoreProcess) -> None:
    sent = b"\r\n\nlast\r\n\xff\x00 \t\nwithout an end"
    assert tools.run("produce", "odd", lines=sent)[0] == 0
    code, out, _ = tools.run("consume", "odd", "--from-beginning", "--max-records", "5", "--with-address")
    found = [line.split(b" ", 2) for line in out.removesuffix(b"\n").split(b"\n")]
    assert code == 0
    assert [line[2] for line in found] == [b"", b"", b"last", b"\xff\x00 \t", b"without an end"]
    assert {(line[0], len(line[1])) for line in found} == {(b"odd", 32)}


def test_without_a_store_it_says_what_was_not_acknowledged(tools: Tools) -> None:
    code, out, err = tools.run("produce", "t", "--wait-seconds", "0.1", lines=lines(3))
    assert (code, out) == (2, b"")
    assert "3 of 3 records were not acknowledged by a store within 0.1 s (sequences 0 to 2" in err
    assert len(err.splitlines()) == 1


def test_a_store_that_comes_late_gets_everything(
    tools: Tools, store: StoreProcess, tower: TowerProcess, tmp_path: Path
) -> None:
    """The producer that waits for two stores ends when the second one has it all."""
    sent = lines(3000)
    producer = tools.start("produce", "t", "--stores", "2")
    assert producer.stdin is not None
    producer.stdin.write(sent)
    producer.stdin.flush()
    consumer = ("consume", "t", "--from-beginning", "--max-records", "3000")
    assert tools.run(*consumer) == (0, sent, ""), "the first one has it all"
    second = StoreProcess(tmp_path / "two", "two", tower).start()
    try:
        assert producer.communicate(timeout=PATIENCE_SECONDS) == (b"", b"")
        assert producer.returncode == 0
        store.kill9()
        assert tools.run(*consumer) == (0, sent, ""), "so has the second"
    finally:
        second.kill9()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_both_in_order(tools: Tools, store: StoreProcess, number: int) -> None:
    producer = tools.start("produce", "t")
    consumer = tools.start("consume", "t", "--from-beginning")
    assert producer.stdin is not None
    assert consumer.stdout is not None
    producer.stdin.write(b"hello\n")
    producer.stdin.flush()
    assert consumer.stdout.readline() == b"hello\n"
    for process in (producer, consumer):
        process.send_signal(number)
        assert process.wait(PATIENCE_SECONDS) == 0


def test_a_reader_that_goes_away_ends_the_consumer(tools: Tools, store: StoreProcess) -> None:
    assert tools.run("produce", "t", lines=lines(2))[0] == 0
    consumer = tools.start("consume", "t", "--from-beginning")
    assert consumer.stdout is not None
    assert consumer.stdout.readline() == b"line 0\n"
    consumer.stdout.close()
    deadline = time.monotonic() + PATIENCE_SECONDS
    while consumer.poll() is None:
        assert time.monotonic() < deadline
        tools.run("produce", "t", lines=lines(1))
    assert consumer.returncode == 0


@pytest.mark.parametrize("subject", ["", "x" * 256, "a\nb"])
@pytest.mark.parametrize("command", ["produce", "consume"])
def test_what_is_no_subject(tools: Tools, command: str, subject: str) -> None:
    code, _, err = tools.run(command, subject)
    assert code == 2
    assert "is no subject" in err


@pytest.mark.parametrize("command", ["produce", "consume"])
def test_help_has_an_example(command: str) -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "dafka.cli", command, "--help"], capture_output=True, check=True
    ).stdout.decode()
    assert "echo hello | dafka produce greetings" in shown
    assert "Exit codes" in shown
