"""Which native records topics have, or are still to have."""

import pytest

from mesh.protocol.native_wanted import EVERYTHING, Terms, WantedSubjects
from wireproto.dafka.additions import NativeTopic

ONE, TWO = NativeTopic("d1", "t", 5_000), NativeTopic("d2", "t")


def wanted(*topics: NativeTopic) -> WantedSubjects:
    subjects = WantedSubjects(60.0)
    assert subjects.told(7, topics)
    return subjects


def test_what_no_topic_takes_up_goes_as_the_store_is_set() -> None:
    subjects = wanted(ONE)
    assert subjects.terms("u", {"d1": 3}) == Terms(EVERYTHING, 60.0)
    assert "u" not in subjects
    assert "t" in subjects


@pytest.mark.parametrize(
    ("taken", "following"),
    [({}, 0), ({"d1": 3}, 0), ({"d1": 3, "d2": 2}, 2), ({"d1": 3, "d2": 9, "d3": 1}, 3)],
)
def test_a_record_is_wanted_until_all_topics_have_it(taken: dict[str, int], following: int) -> None:
    assert wanted(ONE, TWO).terms("t", taken).following == following


@pytest.mark.parametrize(
    ("topics", "seconds"),
    [((ONE,), 5.0), ((TWO,), 60.0), ((ONE, TWO), 60.0), ((ONE, NativeTopic("d3", "t", 90_000)), 90.0)],
)
def test_what_all_have_is_kept_for_the_longest_of_their_times(
    topics: tuple[NativeTopic, ...], seconds: float
) -> None:
    assert wanted(*topics).terms("t", {}).seconds == seconds


def test_who_sees_an_older_catalog_changes_nothing() -> None:
    subjects = wanted(ONE)
    assert not subjects.told(6, ())
    assert not subjects.told(8, (ONE,))
    assert not subjects.told(7, ())
    assert "t" in subjects
    assert subjects.told(8, ())
    assert "t" not in subjects


def test_which_topics_there_are_survives_a_restart() -> None:
    again = WantedSubjects(60.0)
    again.load(wanted(ONE, TWO).pack())
    assert again.terms("t", {}) == Terms(0, 60.0)
    # Of whatever revision the catalog is then: it may have been imported.
    assert again.told(1, ())


def test_nothing_was_kept() -> None:
    subjects = WantedSubjects(60.0)
    subjects.load(b"")
    assert "t" not in subjects


@pytest.mark.parametrize("value", [b"\0", b"\0\0\0\1", b"\xff" * 20, WantedSubjects(1).pack() + b"x"])
def test_what_cannot_be_read(value: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        WantedSubjects(60.0).load(value)
