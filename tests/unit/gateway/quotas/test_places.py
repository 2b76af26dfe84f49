from __future__ import annotations

import pytest

from gateway.quotas.places import PlaceLimits, Places

HERE, THERE = "10.0.0.1", "10.0.0.2"


@pytest.mark.parametrize(
    ("limits", "there", "refusal"),
    [
        pytest.param(PlaceLimits(), [HERE] * 100, None, id="unlimited"),
        pytest.param(PlaceLimits(all=3), [HERE, THERE], None, id="the last place"),
        pytest.param(PlaceLimits(all=3), [HERE, THERE, THERE], "all", id="none is left"),
        pytest.param(PlaceLimits(of_address=2), [HERE, THERE, THERE], None, id="others have theirs"),
        pytest.param(PlaceLimits(of_address=2), [HERE, HERE], "ip", id="its own are taken"),
        pytest.param(PlaceLimits(of_address=1, of_some={HERE: 3}), [HERE, HERE], None, id="it may have more"),
        pytest.param(PlaceLimits(of_some={HERE: 0}), [], "ip", id="it may have none"),
        pytest.param(PlaceLimits(of_some={THERE: 0}), [], None, id="another may have none"),
    ],
)
def test_refusals(limits: PlaceLimits, there: list[str], refusal: str | None) -> None:
    places = Places()
    for address in there:
        places.take(address)
    places.limits = limits
    assert places.refusal(HERE) == refusal


def test_places_are_given_back() -> None:
    places = Places()
    places.limits = PlaceLimits(all=2, of_address=1)
    places.take(HERE)
    assert places.refusal(HERE) == "ip"
    places.leave(HERE)
    assert places.refusal(HERE) is None
    places.take(HERE)
    places.take(THERE)
    assert places.refusal("10.0.0.3") == "all"


def test_rests() -> None:
    places = Places()
    assert [places.rest_ms(0) for _ in range(100)] == [0] * 100
    places.limits = PlaceLimits(per_second=1)
    # Ten at once; then a second each, whatever more it would be.
    assert [places.rest_ms(1_000) for _ in range(12)] == [0] * 10 + [1_000] * 2
    places.limits = PlaceLimits(per_second=0)
    assert places.rest_ms(1_000) == 1_000
