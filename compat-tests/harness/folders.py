"""One client's folder: what it is, how it is brought into the cache, how it is run, what is known to pass."""

import hashlib
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from functools import cached_property, partial
from pathlib import Path

from harness.scenarios import SCENARIOS, Scenario
from tests.peers.cache import cache_root, cached_folder
from tests.peers.go import go_program
from tests.peers.java import compiled
from tests.peers.maven import client_jars, jars
from tests.peers.requirements import require

HERE = Path(__file__).parent.parent
BRING_TIMEOUT_SECONDS = 900


class ClientFolder:
    """A folder beside `run.py` with `client.toml`, `run`, `allow.txt` and FINDINGS.md.

    `client.toml` has `title` and `registry`, one of `pypi` (with requirements.txt), `maven` (with `version`
    of kafka-clients), `jars` (Maven too: with `artifacts`, and .java files beside it), `go` (with go.mod and
    go.sum) and `apt` (with `package`). Whatever it names is pinned, except what the distribution ships.

    A framework has `[[scenario]]` tables of its own (`name`, `shows`, and what else `Scenario` has); the
    shared ones are for clients.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = path.name
        with (path / "client.toml").open("rb") as file:
            self._about = tomllib.load(file)

    @property
    def title(self) -> str:
        return str(self._about["title"])

    @cached_property
    def scenarios(self) -> tuple[Scenario, ...]:
        """Its own, or those that clients share."""
        return tuple(Scenario(**one) for one in self._about.get("scenario", ())) or SCENARIOS

    @cached_property
    def allowed(self) -> frozenset[str]:
        """Scenarios that must pass."""
        return read_allowed(self.path)

    def command(self, scenario: str, bootstrap: str) -> list[str]:
        """What runs a scenario; `environment` belongs to it."""
        return [str(self.path / "run"), scenario, bootstrap]

    def environment(self, home: Path) -> dict[str, str]:
        return {
            **os.environ,
            "COMPAT_HOME": str(home),
            # The Python of the project itself, for clients that have none of their own.
            "COMPAT_PYTHON": sys.executable,
            "PYTHONPATH": f"{HERE}:{HERE.parent}",
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def bring(self) -> Path:
        """The folder of the cache that holds the client, filled the first time. Exits where that fails."""
        return _BRINGERS[self._about["registry"]](self)

    def value(self, name: str) -> str:
        """An entry of `client.toml`."""
        return str(self._about[name])

    def values(self, name: str) -> list[str]:
        """An entry of `client.toml` that is a list."""
        return [str(one) for one in self._about[name]]


def read_allowed(folder: Path) -> frozenset[str]:
    """The names in a folder's `allow.txt`."""
    lines = (folder / "allow.txt").read_text().splitlines()
    return frozenset(line.strip() for line in lines if line.strip() and not line.startswith("#"))


def client_folders(names: list[str]) -> list[ClientFolder]:
    """The folders of these names, or all. Raises SystemExit for a name that is neither client nor suite."""
    found = {path.parent.name: path.parent for path in sorted(HERE.glob("*/client.toml"))}
    suites = {path.parent.name for path in HERE.glob("*/suite.toml")}
    unknown = set(names) - set(found) - suites
    if unknown:
        known = ", ".join(sorted({*found, *suites}))
        raise SystemExit(f"no such client: {', '.join(sorted(unknown))}; there are {known}")
    return [ClientFolder(path) for name, path in found.items() if not names or name in names]


def _python(client: ClientFolder) -> Path:
    requirements = client.path / "requirements.txt"
    return cached_folder(_name(client, requirements), partial(_fill_venv, requirements))


def _fill_venv(requirements: Path, folder: Path) -> None:
    run_to_its_end([sys.executable, "-m", "venv", str(folder)])
    install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary=:all:"]
    run_to_its_end([str(folder / "bin" / "python"), *install, "-r", str(requirements)])


def _maven(client: ClientFolder) -> Path:
    brought = client_jars(client.value("version"))
    classes = compiled(HERE / "java_client", brought)
    return cached_folder(
        _name(client, digest_of=str(classes).encode()), partial(_link_both, brought, classes)
    )


def _link_both(jar_folder: Path, classes: Path, folder: Path) -> None:
    _link_jars(jar_folder, folder)
    (folder / "classes").symlink_to(classes)


def _link_jars(jar_folder: Path, folder: Path) -> None:
    (folder / "jars").symlink_to(jar_folder)


def _artifacts(client: ClientFolder) -> Path:
    brought = jars(f"compat-{client.name}", client.values("artifacts"))
    if not any(client.path.glob("*.java")):
        return cached_folder(_name(client, digest_of=str(brought).encode()), partial(_link_jars, brought))
    classes = compiled(client.path, brought)
    return cached_folder(
        _name(client, digest_of=str(classes).encode()), partial(_link_both, brought, classes)
    )


def _go(client: ClientFolder) -> Path:
    sources = sorted([*client.path.glob("*.go"), client.path / "go.mod", client.path / "go.sum"])
    return cached_folder(_name(client, *sources), partial(_build_go, client))


def _build_go(client: ClientFolder, folder: Path) -> None:
    go = go_program(client.path / "go.mod")
    run_to_its_end([go, "build", "-mod=readonly", "-o", str(folder / "client"), "."], cwd=client.path)


def _apt(client: ClientFolder) -> Path:
    return Path(require(client.value("package"))).parent


_BRINGERS: dict[str, Callable[[ClientFolder], Path]] = {
    "pypi": _python,
    "maven": _maven,
    "jars": _artifacts,
    "go": _go,
    "apt": _apt,
}


def _name(client: ClientFolder, *files: Path, digest_of: bytes = b"") -> str:
    digest = hashlib.sha256(digest_of + b"".join(file.read_bytes() for file in files))
    return f"compat-{client.name}-{digest.hexdigest()[:8]}"


def run_to_its_end(
    command: list[str], cwd: Path | None = None, environment: dict[str, str] | None = None
) -> None:
    """Run what brings or builds something. Exits with the end of its words where that fails."""
    result = subprocess.run(
        command,
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=BRING_TIMEOUT_SECONDS,
        check=False,
    )
    if result.returncode != 0:
        tail = (result.stdout + result.stderr)[-2000:]
        raise SystemExit(f"{' '.join(command)} ended with {result.returncode}, cache {cache_root()}:\n{tail}")
