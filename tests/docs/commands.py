"""The commands of a page, run in their order as a reader types them, and what the page says they print."""

from __future__ import annotations

import os
import re
import shlex
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.docs.constants_page import ROOT
from tests.peers.ports import free_ports

ADDRESS = "127.0.0.1:9092"
"""What pages call the server; commands get a port that is free instead."""

SECONDS = 300

_SERVERS = re.compile(r"^dafka (standalone|gateway)\b")
_READY_SECONDS = 60

_PRELUDE = f"""set -eu -o pipefail
listens() {{
  {shlex.quote(sys.executable)} - "$1" "$2" <<'END'
import socket, sys, time
address, wanted = sys.argv[1], sys.argv[2] == "yes"
host, port = address.split(":")
until = time.monotonic() + {_READY_SECONDS}
def listens():
    try:
        socket.create_connection((host, int(port)), 1).close()
        return True
    except OSError:
        return False
while listens() is not wanted:
    if time.monotonic() > until:
        raise SystemExit("no server came up on " + address if wanted else "one still listens on " + address)
    time.sleep(0.05)
END
}}
"""


@dataclass
class Block:
    """Commands, or a program, of a page; `output` is what the page shows below it, if it does."""

    kind: str
    text: str
    output: str | None = None


@dataclass
class Shell:
    """A place to run a page's commands in: a folder, a free port, and `dafka` on the path."""

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)
    tools: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Further programs on the path: a name, and the command that it is."""

    def __post_init__(self) -> None:
        programs = self.folder / "bin"
        programs.mkdir()
        for name, module in {"dafka": "dafka.cli", "dafka-pipeline": "dafka_pipeline.cli"}.items():
            _program(programs / name, f'exec {shlex.quote(sys.executable)} -m {module} "$@"')
        for name, command in self.tools.items():
            _program(programs / name, f'exec {shlex.join(command)} "$@"')
        _program(programs / "python", f'exec {shlex.quote(sys.executable)} "$@"')
        port, inward, outward = free_ports(3)
        self.address = f"127.0.0.1:{port}"
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("DAFKA_")},
            "PATH": f"{programs}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "DAFKA_BOOTSTRAP": self.address,
            "DAFKA_PORT_IN": str(inward),
            "DAFKA_PORT_OUT": str(outward),
            "DAFKA_TOWER": f"127.0.0.1:{inward}:{outward}",
            **self.environment,
        }

    def run(self, blocks: list[Block]) -> list[str]:
        """Run the blocks in one shell and return what each printed. Ends all that was left in the background.

        Raises:
            AssertionError: one of them failed, with what it said.
        """
        script = _PRELUDE + "".join(self._step(number, block) for number, block in enumerate(blocks))
        with (self.folder / "shell.out").open("w") as said:
            shell = subprocess.Popen(
                ["bash", "-c", script],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            code = shell.wait(SECONDS)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)
            shell.wait()
        printed = [
            path.read_text() for number in range(len(blocks)) if (path := self._output(number)).exists()
        ]
        assert code == 0, (
            blocks[len(printed) - 1].text,
            printed[-1:],
            (self.folder / "shell.out").read_text()[-4000:],
        )
        return [one.replace(self.address, ADDRESS) for one in printed]

    def _step(self, number: int, block: Block) -> str:
        """The lines of the script for a block. A server goes on in the background, and is waited for; and so
        is the end of one that was killed just before.
        """
        text = block.text.replace(ADDRESS, self.address)
        if block.kind == "python":
            program = self.folder / f"block-{number}.py"
            program.write_text(text)
            text = f"python {program}\n"
        lines = []
        for line in text.splitlines():
            if _SERVERS.match(line):
                command = line.rstrip(" &")
                if f"://{self.address}" not in command:
                    command = command.replace(f" --listen {self.address}", "") + f" --listen {self.address}"
                lines += [
                    f"listens {self.address} no",
                    f"{command} >> server.log 2>&1 &",
                    f"listens {self.address} yes",
                ]
            else:
                lines.append(line)
        return "\n".join(["{", *lines, f"}} > {self._output(number)}", ""])

    def _output(self, number: int) -> Path:
        return self.folder / f"block-{number}.out"


def blocks(page: Path, section: str = "") -> list[Block]:
    """The code blocks of a page or of one section, with a `text` block after one as its output."""
    text = page.read_text()
    if section:
        text = re.split(r"^## ", text.split(f"\n## {section}\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]
    found: list[Block] = []
    for block in _blocks(text.splitlines()):
        if block.kind == "text" and found:
            found[-1].output = block.text
        else:
            found.append(block)
    return found


def _blocks(lines: list[str]) -> Iterator[Block]:
    number = 0
    while number < len(lines):
        line = lines[number]
        if line.startswith("```"):
            end = lines.index("```", number + 1)
            yield Block(line[3:].split(" ")[0] or "plain", _text(lines[number + 1 : end]))
            number = end
        elif line.startswith("    ") and (number == 0 or not lines[number - 1]):
            end = number
            while end < len(lines) and (lines[end].startswith("    ") or not lines[end]):
                end += 1
            yield Block("sh", _text([one[4:] for one in lines[number:end]]).rstrip("\n") + "\n")
            number = end - 1
        number += 1


def _text(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _program(path: Path, command: str) -> None:
    path.write_text(f"#!/bin/sh\n{command}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
