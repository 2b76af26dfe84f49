"""Which native records topics have, or are still to have."""

import pytest

from mesh.protocol.native_wanted import EVERYTHING, MAX_WANTED, Terms, WantedSubjects
from wireproto.dafka.additions import NativeTopic

ONE, TWO = NativeTopic("d1", "t", 5_000), NativeTopic("d2", "t")


def wanted(*topics: NativeTopic) -> WantedSubjects:
    subjects = WantedSubjects(60.0)
    assert subjects.told(topics, 0.0)
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


def test_who_sees_an_older_catalog_takes_nothing_away() -> None:
    subjects = wanted(ONE)
    assert not subjects.told((), 100.0)
    assert not subjects.told((ONE,), 150.0)
    assert not subjects.told((), 329.0)
    assert "t" in subjects
    assert subjects.told((), 330.0)
    assert "t" not in subjects


def test_where_nobody_tells_of_anything_nothing_is_over() -> None:
    subjects = wanted(ONE)
    for now in (10_000.0, 20_000.0, 20_179.0):
        assert not subjects.told((), now)
    assert subjects.told((), 20_180.0)


def test_another_subject_of_a_topic_counts_besides_for_a_while() -> None:
    subjects = wanted(ONE)
    other = NativeTopic("d1", "u")
    assert subjects.told((other,), 100.0)
    assert "t" in subjects
    assert "u" in subjects
    assert subjects.told((other,), 180.0)
    assert "t" not in subjects


def test_another_retention_counts_at_once() -> None:
    subjects = wanted(ONE)
    assert subjects.told((ONE._replace(retention_ms=9_000),), 1.0)
    assert subjects.terms("t", {}).seconds == 9.0


def test_which_topics_there_are_survives_a_restart() -> None:
    again = WantedSubjects(60.0)
    again.load(wanted(ONE, TWO).pack())
    assert again.terms("t", {}) == Terms(0, 60.0)
    assert not again.told((), 5.0)
    assert not again.told((), 100.0)
    assert again.told((), 185.0)
    assert "t" not in again


def test_where_it_cannot_be_read_which_there_are_all_may_be_wanted() -> None:
    subjects = WantedSubjects(60.0)
    subjects.distrust()
    subjects.told((ONE,), 5.0)
    assert subjects.terms("u", {}) == Terms(0, 60.0)
    assert "u" in subjects
    for now in (100.0, 184.0):
        subjects.told((ONE,), now)
        assert subjects.terms("u", {}) == Terms(0, 60.0)
    assert subjects.told((ONE,), 185.0)
    assert subjects.terms("u", {}).following == EVERYTHING


def test_no_more_than_so_many_topics_are_remembered() -> None:
    topics = tuple(NativeTopic(f"d{number}", "t") for number in range(MAX_WANTED + 1))
    subjects = wanted(*topics)
    assert [subjects.has(topic) for topic in topics[-2:]] == [True, False]
    again = WantedSubjects(60.0)
    again.load(subjects.pack())
    assert again.has(topics[-2])


def test_nothing_was_kept() -> None:
    subjects = WantedSubjects(60.0)
    subjects.load(b"")
    assert "t" not in subjects


@pytest.mark.parametrize("value", [b"\0", b"\0\0\0\1", b"\xff" * 20, WantedSubjects(1).pack() + b"x"])
def test_what_cannot_be_read(value: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        WantedSubjects(60.0).load(value)
