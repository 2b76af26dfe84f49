"""One etcd for the tests of a worker, each below a prefix of its own; and the catalogs in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

import pytest

from gateway.catalog.etcd.address import EtcdAddress
from tests.peers.etcd import Etcd

_numbers = count()


@pytest.fixture(scope="session")
def etcd_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    """One member that lives as long as the tests of this worker."""
    with Etcd(tmp_path_factory.mktemp("etcd")) as etcd:
        yield etcd


@pytest.fixture
def new_address(etcd_process: Etcd) -> Callable[[], EtcdAddress]:
    """Gives the address of a catalog that nobody has used."""
    return lambda: EtcdAddress.parse(f"{etcd_process.address}/test-{next(_numbers)}")
