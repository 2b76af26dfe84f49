"""`dafka standalone` as a real process, the way a user starts it."""

import re
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from tests.peers.ports import free_ports
from tests.peers.process import ServerProcess

READY = re.compile(r"^Kafka is ready on (\S+):(\d+).*\n", re.MULTILINE)


class Standalone(ServerProcess):
    """A context manager around a running `dafka standalone`; `bootstrap` is its HOST:PORT.

    Args:
        data: its data directory; inside `directory` by default.
        arguments: more command-line arguments, e.g. `("--fsync", "never")`.
        directory: where its logs go; a temporary one that goes with it by default.
        wrapper: a command in front of it. Only one that leaves the process its id (`strace -D ...`) keeps
            `pid` true.
        program: how `dafka` is called; the module of this checkout under this Python by default.
        environment: more environment variables.
        protocol: how clients speak.
    """

    def __init__(
        self,
        data: Path | None = None,
        *arguments: str,
        directory: Path | None = None,
        wrapper: Sequence[str] = (),
        program: Sequence[str] = (sys.executable, "-m", "dafka.cli"),
        environment: Mapping[str, str] | None = None,
        protocol: str = "PLAINTEXT",
    ) -> None:
        self._temporary = directory is None
        super().__init__(directory or Path(tempfile.mkdtemp(prefix="dafka-standalone-")), environment)
        self.data = data or self.directory / "data"
        self.arguments = arguments
        self._wrapper = wrapper
        self._program = program
        self._protocol = protocol
        self.host, self.port = "127.0.0.1", 0

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def addresses(self) -> list[str]:
        """HOST:PORT of each listener, in the order of the command line; the first one is `bootstrap`."""
        return [f"{host}:{port}" for host, port in READY.findall(self.stdout)]

    @property
    def stdout(self) -> str:
        """What this life of the process wrote to standard output so far."""
        return self.stdout_path.read_text(errors="replace")

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_exc: object) -> None:
        self.kill9()
        if self._temporary:
            shutil.rmtree(self.directory, ignore_errors=True)

    def launch(self) -> None:
        """Start it without waiting, on the same port each time."""
        self.port = self.port or free_ports(1)[0]
        listen = f"{self._protocol}://{self.host}:{self.port}"
        own = ["standalone", "--listen", listen, "--data", str(self.data)]
        self._spawn([*self._wrapper, *self._program, *own, *self.arguments])

    def start(self) -> Self:
        """Start it on the same data and wait for the line that says it serves.

        Raises:
            ServerEnded: it refused to start; `returncode` and `log` say why.
        """
        self.launch()
        self.await_ready()
        return self

    def await_ready(self) -> None:
        """Wait for the line that says where it serves, and take host and port from it."""
        ready = self._wait_until(lambda: READY.search(self.stdout))
        self.host, self.port = ready[1], int(ready[2])

    def restart(self) -> Self:
        """SIGKILL if it still runs, and start it again on the same port and data."""
        self.kill9()
        return self.start()
