"""The fixtures, and what a failed test shows.

pytest imports this module in every run: so it imports nothing of the server until a fixture is asked for.
"""

from __future__ import annotations

import os
import re
import tempfile
import uuid
import warnings
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pytest_dafka.admin import Admin
    from pytest_dafka.chaos import Chaos
    from pytest_dafka.server import Server, Topic

BOOTSTRAP_VARIABLE = "DAFKA_BOOTSTRAP"
"""HOST:PORT of a server that is there already: any Kafka. Faults are not to be had from it."""

_RUN = pytest.StashKey[tuple[Path, int]]()
_USED = pytest.StashKey["Used"]()


class Used:
    """What one test has used: its servers, its topics and its groups."""

    def __init__(self) -> None:
        self.servers: list[Server] = []
        self.topics: list[str] = []
        self.groups: list[str] = []


# a run, and its workers ----------------------------------------------------------------------------------


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "dafka(*arguments): more arguments of `dafka standalone` for the fixture dafka_own"
    )
    given = getattr(config, "workerinput", {}).get("dafka")
    path = Path(tempfile.gettempdir()) / f"pytest-dafka-{uuid.uuid4().hex[:12]}"
    # A worker shares what its controller chose; the server ends with the controller, not with a worker.
    config.stash[_RUN] = (Path(given[0]), given[1]) if given else (path, os.getpid())


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Each of xdist's workers is told where the server of the run is, or will be."""
    path, pid = node.config.stash[_RUN]
    node.workerinput["dafka"] = (str(path), pid)


def pytest_unconfigure(config: pytest.Config) -> None:
    path, pid = config.stash.get(_RUN, (None, 0))
    if path is not None and pid == os.getpid() and path.exists():
        from pytest_dafka.process import stop

        stop(path)


# fixtures ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def _dafka_shared(request: pytest.FixtureRequest) -> Server:
    server = _server_class()
    if outside := os.environ.get(BOOTSTRAP_VARIABLE):
        return server(outside, None)
    from pytest_dafka.process import shared

    path, pid = request.config.stash[_RUN]
    return server(shared(path, pid), path)


@pytest.fixture(scope="session")
def dafka(_dafka_shared: Server) -> Server:
    """A Kafka-compatible server, one for the whole run and all of its workers: `dafka.bootstrap`."""
    return _dafka_shared


@pytest.fixture
def dafka_own(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server of this test's own, for what changes the server: half a second more."""
    from pytest_dafka.process import start, stop

    path = Path(tempfile.mkdtemp(prefix="pytest-dafka-"))
    marker = request.node.get_closest_marker("dafka")
    try:
        server = _server_class()(start(path, os.getpid(), *(marker.args if marker else ())), path)
        _used(request.node).servers.append(server)
        yield server
    finally:
        stop(path)


@pytest.fixture
def dafka_topics(request: pytest.FixtureRequest, dafka: Server) -> Callable[..., Topic]:
    """Makes topics that no other test has: `dafka_topics(partitions=3, cleanup_policy="compact")`."""
    from pytest_dafka.server import Topic

    used = _used(request.node)
    used.servers.append(dafka)

    def make(partitions: int = 1, **configs: object) -> Topic:
        name = _name("t", request)
        dafka.admin.create_topic(name, partitions, **configs)
        used.topics.append(name)
        return Topic(name, dafka)

    return make


@pytest.fixture
def dafka_topic(dafka_topics: Callable[..., Topic]) -> Topic:
    """A topic of this test's own, with one partition: a str, its name."""
    return dafka_topics()


@pytest.fixture
def dafka_group(request: pytest.FixtureRequest, dafka: Server) -> str:
    """The name of a consumer group that no other test has."""
    used = _used(request.node)
    used.servers.append(dafka)
    used.groups.append(_name("g", request))
    return used.groups[-1]


@pytest.fixture
def dafka_admin(request: pytest.FixtureRequest, dafka: Server) -> Admin:
    """Topics, groups and lags of the shared server."""
    _used(request.node).servers.append(dafka)
    return dafka.admin


@pytest.fixture
def dafka_chaos(request: pytest.FixtureRequest) -> Iterator[Chaos]:
    """Faults on order, all gone after the test. They meet every client of the server: of `dafka_own`, if the
    test has that, or of the shared one, where they are best narrowed to a topic.
    """
    own = "dafka_own" in request.fixturenames
    server: Server = request.getfixturevalue("dafka_own" if own else "dafka")
    if server.directory is None:
        pytest.skip(f"{BOOTSTRAP_VARIABLE} names a server of somebody else's: it takes no orders to fail")
    chaos = server.chaos()
    try:
        yield chaos
    finally:
        chaos.clear()


def _server_class() -> type[Server]:
    """`Server`, loaded without the warnings of what it loads: a run may have made errors of them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pytest_dafka.server import Server
    return Server


def _used(node: pytest.Item) -> Used:
    return node.stash.setdefault(_USED, Used())


def _name(kind: str, request: pytest.FixtureRequest) -> str:
    """A name that says where it is from, and that no other worker or run has."""
    worker = getattr(request.config, "workerinput", {}).get("workerid", "main")
    test = re.sub(r"[^a-zA-Z0-9]+", "-", request.node.name).strip("-")[:60]
    return f"{kind}-{worker}-{uuid.uuid4().hex[:8]}-{test}"


# the report ----------------------------------------------------------------------------------------------


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    used = item.stash.get(_USED, None)
    if report.failed and call.when == "call" and used is not None and used.servers:
        from pytest_dafka.report import sections

        report.sections += sections(used)
    return report
