"""Certificates as czmq writes them, and what is no certificate."""

import time

import pytest

from mesh.keys.certificate import BadCertificate, Certificate, checked_name, from_text, to_text
from mesh.keys.roles import Role

PUBLIC, SECRET = "a" * 40, "b" * 40
STORE = Certificate("store-1", Role.STORE, PUBLIC, (), SECRET)
PRODUCER = Certificate("sensors", Role.PRODUCER, PUBLIC, ("heat", "rooms/*"), SECRET)

CZMQ = f"""#   ****  Generated on 2026-11-26 16:00:00 by CZMQ  ****
#   ZeroMQ CURVE **Secret** Certificate
#   DO NOT PROVIDE THIS FILE TO OTHER USERS nor change its permissions.

metadata
    name = "store-1"
    role = store   # as zcert_set_meta was given it
curve
    public-key = "{PUBLIC}"
    secret-key = "{SECRET}"
"""


@pytest.mark.parametrize("certificate", [STORE, PRODUCER])
def test_what_was_written_comes_back(certificate: Certificate) -> None:
    public = to_text(certificate)
    assert SECRET not in public
    assert from_text(public) == Certificate(
        certificate.name, certificate.role, PUBLIC, certificate.subjects, ""
    )
    assert from_text(to_text(certificate, with_secret=True)) == certificate


def test_czmqs_text_is_read() -> None:
    assert from_text(CZMQ) == STORE


def test_a_hostile_line_takes_no_longer_than_others() -> None:
    """Whoever gives somebody a certificate to add would hold up every process that follows the directory."""
    began = time.process_time()
    for line in (
        "a=" + " " * 16_000 + '"',
        "a" + " " * 16_000 + "=",
        "a=" + " " * 8_000 + "b" + " " * 8_000 + '"',
    ):
        with pytest.raises(BadCertificate):
            from_text(line)
    assert time.process_time() - began < 1


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("    name=n", "n"),
        ("    name = n # why", "n"),
        ("    name = n# why", "n"),
        ("    name = 'n'", "n"),
        ('    name = "n"   # why', "n"),
        ("    name   =   n   ", "n"),
    ],
)
def test_how_a_value_may_be_written(line: str, expected: str) -> None:
    assert from_text(with_lines("metadata", line, '    role = "store"', *GOOD_CURVE)).name == expected


def test_a_secret_is_in_no_representation() -> None:
    assert SECRET not in repr(STORE)
    assert SECRET not in str(STORE)


def with_lines(*lines: str) -> str:
    return "\n".join(lines)


GOOD_META = ("metadata", '    name = "n"', '    role = "store"')
GOOD_CURVE = ("curve", f'    public-key = "{PUBLIC}"')


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "public-key"),
        (with_lines(*GOOD_META), "public-key"),
        (with_lines(*GOOD_META, "curve", '    public-key = "abc"'), "public-key"),
        (with_lines(*GOOD_META, *GOOD_CURVE, '    secret-key = "abc"'), "secret-key"),
        (with_lines("metadata", '    name = "n"', *GOOD_CURVE), "no role"),
        (with_lines("metadata", '    name = "n"', '    role = "king"', *GOOD_CURVE), "no role"),
        (with_lines("metadata", '    role = "store"', *GOOD_CURVE), "no name"),
        (with_lines("metadata", '    name = "../n"', '    role = "store"', *GOOD_CURVE), "no name"),
        (with_lines(*GOOD_META, '    subjects = "heat"', *GOOD_CURVE), "subjects"),
        (with_lines("metadata", '    name = "n"', '    role = "producer"', *GOOD_CURVE), "subjects"),
        (with_lines("curve", f'        public-key = "{PUBLIC}"'), "line 2"),
        (with_lines("curve", f'  public-key = "{PUBLIC}"'), "line 2"),
        (with_lines("{}"), "line 1"),
        (with_lines("metadata", '    name = "n'), "line 2"),
        (with_lines("metadata", '    name = "n" more'), "line 2"),
        (with_lines("metadata", "    name = n more"), "line 2"),
        (with_lines("metadata more"), "line 1"),
    ],
)
def test_what_is_no_certificate(text: str, why: str) -> None:
    with pytest.raises(BadCertificate, match=why):
        from_text(text)


def test_what_is_wrong_with_a_secret_does_not_say_it() -> None:
    with pytest.raises(BadCertificate) as refused:
        from_text(with_lines(*GOOD_META, *GOOD_CURVE, '    secret-key = "verysecret"'))
    assert "verysecret" not in str(refused.value)


@pytest.mark.parametrize("name", ["", ".hidden", "-option", "a/b", "a b", "ä", "n" * 65])
def test_names_that_are_none(name: str) -> None:
    with pytest.raises(BadCertificate, match="no name"):
        checked_name(name)


@pytest.mark.parametrize(
    ("subject", "expected"),
    [("heat", True), ("heat2", False), ("rooms/1", True), ("rooms/", True), ("rooms", False), ("", False)],
)
def test_which_subjects_a_producer_may_publish(subject: str, expected: bool) -> None:
    assert PRODUCER.may_publish(subject) is expected


def test_more_subjects_than_there_may_be() -> None:
    many = " ".join(f"s{number}" for number in range(65))
    with pytest.raises(BadCertificate, match="64 subjects"):
        from_text(
            with_lines(
                "metadata", '    name = "n"', '    role = "producer"', f'    subjects = "{many}"', *GOOD_CURVE
            )
        )
