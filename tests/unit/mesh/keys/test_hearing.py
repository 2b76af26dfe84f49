import pytest

from mesh.keys.hearing import MAX_BEGINNINGS, Hearing
from mesh.keys.roles import Role

OWN, LIFE, STORE = b"A" * 32, b"0123456789ABCDEF", b"5" * 32


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
        (b"D" + STORE, False),
        *((letter + OWN, False) for letter in (b"i", b"p", b"r", b"j", b"P", b"X", b"@")),
        (b"P@*", False),
    ],
)
def test_what_a_native_may_hear(role: Role, prefix: bytes, expected: bool) -> None:
    hearing = Hearing()
    for name in (LIFE, STORE):
        assert hearing.may(Role.GATEWAY, b"D" + name)
    assert hearing.may(role, prefix) is expected


@pytest.mark.parametrize("role", [Role.GATEWAY, Role.STORE])
@pytest.mark.parametrize("prefix", [b"", b"D", b"D" + OWN, b"i" + LIFE])
def test_gateways_and_stores_hear_what_they_want(role: Role, prefix: bytes) -> None:
    hearing = Hearing()
    assert hearing.may(role, prefix)
    assert hearing.may(Role.READER, b"D" + b"B" * 32), "and take nothing from natives by wanting all"


def test_what_is_remembered_is_bounded() -> None:
    hearing = Hearing()
    for number in range(MAX_BEGINNINGS + 1):
        assert hearing.may(Role.GATEWAY, b"D%016d" % number)
    assert hearing.may(Role.READER, b"D" + b"0" * 32), "the oldest was forgotten"
    assert not hearing.may(Role.READER, b"D%016d" % MAX_BEGINNINGS + b"0" * 16)
