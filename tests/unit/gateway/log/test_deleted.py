"""What was deleted in this life is remembered, as far as it is new."""

import pytest

from gateway.log import deleted as module
from gateway.log.deleted import Deleted


def test_the_newest_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_DELETED", 3)
    deleted = Deleted()
    deleted.add("AB")
    deleted.add("CD")
    assert [one in deleted for one in "ABCDE"] == [False, True, True, True, False]
