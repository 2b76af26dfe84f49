"""How the interpreter is set up."""

import gc
from collections.abc import Iterator

import pytest

from dafka.processes.interpreter import loading


@pytest.fixture
def thawed() -> Iterator[None]:
    """What a test froze is the collector's again."""
    yield
    gc.unfreeze()


def test_while_modules_are_loaded_nothing_is_collected_and_afterwards_they_are_frozen(thawed: None) -> None:
    gc.unfreeze()
    with loading():
        assert not gc.isenabled()
        module: list[object] = []
        assert any(one is module for one in gc.get_objects())
    assert gc.isenabled()
    assert gc.get_freeze_count() > 0
    assert all(one is not module for one in gc.get_objects())


def test_a_module_that_cannot_be_loaded_leaves_the_collector_on(thawed: None) -> None:
    with pytest.raises(ImportError), loading():
        raise ImportError
    assert gc.isenabled()
