import pytest

from gateway.cluster.pins import LEASE_SECONDS, MAX_PINS, PinEnded, Pins, TooManyPins


def test_a_pin_holds_until_it_is_released_or_ended() -> None:
    pins = Pins()
    one, other = pins.take(["A", "B"], 0), pins.take(["B"], 0)
    assert [pins.holds(address, 1) for address in "ABC"] == [True, True, False]
    pins.release(one, ["A", "C"], 1)
    assert [pins.holds(address, 1) for address in "ABC"] == [False, True, False]
    pins.end(one)
    assert pins.holds("B", 1)
    pins.end(other)
    pins.end(other)
    assert not pins.holds("B", 1)
    with pytest.raises(PinEnded):
        pins.use(other, 1)


def test_a_pin_that_nobody_uses_ends_by_itself() -> None:
    pins = Pins()
    name = pins.take(["A"], 0)
    pins.use(name, LEASE_SECONDS - 1)
    assert pins.holds("A", 2 * LEASE_SECONDS - 2)
    assert not pins.holds("A", 2 * LEASE_SECONDS)
    assert not pins.is_known(name, 2 * LEASE_SECONDS)
    with pytest.raises(PinEnded):
        pins.release(name, ["A"], 2 * LEASE_SECONDS)


def test_there_are_not_many() -> None:
    pins = Pins()
    for _ in range(MAX_PINS):
        pins.take([], 0)
    with pytest.raises(TooManyPins):
        pins.take([], 1)
    pins.take([], LEASE_SECONDS)
