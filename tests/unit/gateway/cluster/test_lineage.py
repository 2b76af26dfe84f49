"""What stores remember, judged by the catalog's own history."""

from __future__ import annotations

import pytest
import trio

from gateway.catalog import keys
from gateway.cluster import lineage as lineage_module
from gateway.cluster.lineage import CatalogHistory, Life, Lineage, Verdict
from gateway.leadership.records import AliveRecord, pack_alive
from tests.unit.gateway.catalog.memory import MemoryCatalog
from wireproto.dafka.additions import Remembered

VOUCHES, CANNOT_TELL, REFUTES = Verdict.VOUCHES, Verdict.CANNOT_TELL, Verdict.REFUTES


def run(catalog: MemoryCatalog, *lives: str, changes: int = 0) -> CatalogHistory:
    """The history after these lives, in each of which so much is changed after its beginning."""

    async def main() -> None:
        for life in lives:
            begun = CatalogHistory(catalog).begin(life)
            await catalog.transact(begun.compares, begun.puts, begun.deletes)
            for number in range(changes):
                await catalog.transact([], {"/topics/a": b"%d" % number})

    trio.run(main)
    return CatalogHistory(catalog)


def put(catalog: MemoryCatalog, **values: bytes) -> None:
    trio.run(catalog.transact, [], values)


def name_of(history: CatalogHistory) -> str:
    assert history.lineage is not None
    return history.lineage.name


def test_a_new_catalog_and_a_new_store_vouch_for_each_other() -> None:
    catalog = MemoryCatalog()
    assert CatalogHistory(catalog).judge(Remembered()).verdict is VOUCHES
    history = run(catalog, "G1")
    assert history.lineage == Lineage(name_of(history))
    assert history.judge(Remembered()).verdict is VOUCHES


def test_a_catalog_without_a_lineage_is_older_than_a_store_that_knows_one() -> None:
    verdict, reason = CatalogHistory(MemoryCatalog()).judge(Remembered("H", "G1", 0))
    assert verdict is REFUTES
    assert "before it had a lineage" in reason


def test_each_life_lies_between_the_one_before_and_the_one_after() -> None:
    catalog = MemoryCatalog()
    put(catalog, a=b"")
    name = name_of(run(catalog, "G1", "G2", changes=2))
    lives = {one.key: Life.unpack(one.value) for one in catalog.range(keys.LIVES)}
    assert lives == {"/lives/G1": Life(name, 1, 4), "/lives/G2": Life(name, 4)}


@pytest.mark.parametrize(
    ("life", "sequence", "verdict"),
    [
        ("G1", 0, VOUCHES),
        ("G1", 3, VOUCHES),
        ("G1", 4, REFUTES),
        ("G2", 4, VOUCHES),
        ("G2", 6, VOUCHES),
        ("G2", 7, REFUTES),
        ("G3", 1, REFUTES),
        ("G3", 99, REFUTES),
    ],
)
def test_a_memory_lies_on_the_history_or_refutes_it(life: str, sequence: int, verdict: Verdict) -> None:
    catalog = MemoryCatalog()
    history = run(catalog, "G1", "G2", changes=2)
    assert catalog.revision == 6
    assert history.judge(Remembered(name_of(history), life, sequence)).verdict is verdict


def test_a_fork_is_known_however_high_the_sequence_is_by_now() -> None:
    """The catalog fell back to before the end of a life, and another life took it on beyond that."""
    catalog = MemoryCatalog()
    history = run(catalog, "G1", "G2", changes=50)
    assert history.judge(Remembered(name_of(history), "G1", 60)).verdict is REFUTES


def test_another_lineage_refutes() -> None:
    history = run(MemoryCatalog(), "G1")
    verdict, reason = history.judge(Remembered("other", "G1", 0))
    assert verdict is REFUTES
    assert "does not come from it" in reason


def child(catalog: MemoryCatalog, *, settled: bool, sequence: int = 10) -> Lineage:
    parent = Lineage("P", "PP", 5, settled=True, ancestors=("PPP",))
    made = parent.child(sequence, settled=settled)
    trio.run(catalog.transact, [], {keys.LINEAGE: made.pack()})
    return made


@pytest.mark.parametrize("settled", [True, False])
@pytest.mark.parametrize(
    ("lineage", "sequence", "vouches"),
    [("P", 10, (True, True)), ("P", 11, (True, False)), ("PP", 99, (True, True)), ("PPP", 99, (True, True)),
     ("Q", 1, (False, False))],
)  # fmt: skip
def test_a_catalog_that_goes_on_from_another_is_vouched_for_by_its_parents(
    settled: bool, lineage: str, sequence: int, vouches: tuple[bool, bool]
) -> None:
    catalog = MemoryCatalog()
    made = child(catalog, settled=settled)
    assert (made.parent, made.parent_sequence, made.ancestors) == ("P", 10, ("PP", "PPP"))
    verdict = CatalogHistory(catalog).judge(Remembered(lineage, "G", sequence)).verdict
    assert (verdict is VOUCHES) is vouches[not settled]


def test_of_an_imported_catalog_the_parents_lives_are_compared_too() -> None:
    catalog = MemoryCatalog()
    child(catalog, settled=False)
    put(catalog, **{"/lives/G1": Life("P", 0, 4).pack(), "/lives/G2": Life("P", 4, 10).pack()})
    history = CatalogHistory(catalog)
    assert history.judge(Remembered("P", "G1", 4)).verdict is VOUCHES
    assert history.judge(Remembered("P", "G1", 5)).verdict is REFUTES
    assert history.judge(Remembered("P", "G9", 5)).verdict is REFUTES


def test_what_single_stores_know_more_of_the_parent_no_longer_counts_when_enough_have_vouched() -> None:
    catalog = MemoryCatalog()
    child(catalog, settled=False)
    assert CatalogHistory(catalog).judge(Remembered("P", "G", 11)).verdict is REFUTES
    history = run(catalog, "G1")
    assert history.lineage is not None
    assert history.lineage.settled
    assert history.judge(Remembered("P", "G", 11)).verdict is VOUCHES


def test_old_lives_are_forgotten_and_nothing_is_told_from_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lineage_module, "MAX_LIVES", 5)
    monkeypatch.setattr(lineage_module, "LIVES_FOLDED_AT_ONCE", 2)
    catalog = MemoryCatalog()
    history = run(catalog, *(f"G{number}" for number in range(7)), changes=9)
    kept = [one.key for one in catalog.range(keys.LIVES)]
    assert kept == [f"/lives/G{number}" for number in range(2, 7)]
    name = name_of(history)
    assert keys.unpack(catalog.range(keys.LIVES_BEFORE)[0].value) == {name: 20}
    assert history.judge(Remembered(name, "G1", 20)).verdict is CANNOT_TELL
    assert history.judge(Remembered(name, "forked", 20)).verdict is CANNOT_TELL
    assert history.judge(Remembered(name, "G1", 21)).verdict is REFUTES
    assert history.judge(Remembered(name, "G2", 30)).verdict is VOUCHES


def test_a_life_that_goes_on_is_never_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of several gateways runs for long, while others begin life after life."""
    monkeypatch.setattr(lineage_module, "MAX_LIVES", 5)
    monkeypatch.setattr(lineage_module, "LIVES_FOLDED_AT_ONCE", 2)
    catalog = MemoryCatalog()
    long = "A" * 16
    put(catalog, **{keys.alive_key(1): pack_alive(AliveRecord(long))})
    history = run(catalog, long, *(f"G{number}" for number in range(9)), changes=3)
    kept = [one.key for one in catalog.range(keys.LIVES)]
    assert kept[0] == keys.LIVES + long
    assert len(kept) <= 6
    told = Remembered(name_of(history), long, catalog.revision - 1)
    assert history.judge(told).verdict is VOUCHES


def test_no_life_is_ended_while_it_cannot_be_read_which_go_on() -> None:
    catalog = MemoryCatalog()
    put(catalog, **{keys.alive_key(1): b'{"v": 2}'})
    run(catalog, "G1", "G2")
    lives = [Life.unpack(one.value) for one in catalog.range(keys.LIVES)]
    assert [life.last for life in lives] == [None, None]


def test_a_lineage_comes_back_as_it_was() -> None:
    for one in (Lineage.begun(), Lineage("a", "b", 7, settled=True, ancestors=("c", "d"))):
        assert Lineage.unpack(one.pack()) == one
