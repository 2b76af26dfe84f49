import pytest

from mesh.keys.hearing import MAX_LIVES_OF_KEY, Hearing
from mesh.keys.roles import Role

OWN, LIFE, STORE = b"A" * 32, b"0123456789ABCDEF", b"5" * 32
KEY, OTHER = "a gateway's key", "another one's"


@pytest.mark.parametrize("role", [Role.PRODUCER, Role.READER])
@pytest.mark.parametrize(
    ("prefix", "expected"),
    [
        (b"Mheat", True),
        (b"M", True),
        (b"Hheat", True),
        *((letter + OWN, True) for letter in (b"K", b"F", b"D", b"E", b"L", b"N")),
        (b"", False),
        (b"D", False),
        (b"D" + LIFE, False),
        (b"D" + OWN[:-1], False),
        (b"D" + OWN + b"/", False),
        (b"D" + LIFE + b"0" * 16, False),
        (b"N" + LIFE + b"0" * 16, False),
        (b"d" + LIFE, False),
        (b"d" + OWN, False),  # it would have others' answers sent so, too
        (b"d" + LIFE + b"0" * 16, False),
        (b"F@" + STORE[:-1], False),
        (b"F@*" + STORE[:-2], False),
        *((letter + OWN, False) for letter in (b"i", b"p", b"r", b"j", b"P", b"X", b"@")),
        (b"P@*", False),
    ],
)
def test_what_a_native_may_hear(role: Role, prefix: bytes, expected: bool) -> None:
    hearing = Hearing()
    assert hearing.learn(KEY, LIFE) == LIFE
    assert hearing.may(role, prefix) is expected


@pytest.mark.parametrize("role", [Role.GATEWAY, Role.STORE])
@pytest.mark.parametrize("prefix", [b"", b"D", b"D" + OWN, b"i" + LIFE])
def test_gateways_and_stores_hear_what_they_want(role: Role, prefix: bytes) -> None:
    assert Hearing().may(role, prefix)


def test_a_life_is_new_once_and_less_than_one_is_none() -> None:
    hearing = Hearing()
    assert [hearing.learn(KEY, name) for name in (b"", b"A", b"A" * 15)] == [None] * 3
    assert hearing.may(Role.READER, b"D" + OWN), "who wants all takes nothing from natives"
    assert hearing.learn(KEY, LIFE + b"0" * 16) == LIFE
    assert hearing.learn(KEY, LIFE + b"1" * 16) is None
    assert hearing.learn(OTHER, LIFE) is None, "the same one, with its next key"


def numbered(number: int) -> bytes:
    return b"%016d" % number


def test_what_is_remembered_of_a_key_is_bounded_and_takes_nothing_from_others() -> None:
    hearing = Hearing()
    assert hearing.learn(OTHER, LIFE) == LIFE
    for number in range(MAX_LIVES_OF_KEY + 1):
        assert hearing.learn(KEY, numbered(number)) == numbered(number)
    known = [number for number in range(MAX_LIVES_OF_KEY + 1) if hearing.is_gateways(numbered(number))]
    assert known == list(range(1, MAX_LIVES_OF_KEY + 1)), "the first one was forgotten"
    assert hearing.is_gateways(LIFE)


def test_what_a_key_said_goes_with_it() -> None:
    hearing = Hearing()
    hearing.learn(KEY, numbered(1))
    hearing.learn(OTHER, LIFE)
    hearing.learn(KEY, LIFE)
    assert set(hearing.owners()) == {KEY, OTHER}
    hearing.forget(OTHER)
    assert hearing.is_gateways(LIFE), "it is of the other key by now"
    hearing.forget(KEY)
    assert not hearing.is_gateways(LIFE)
    assert not hearing.is_gateways(numbered(1))
