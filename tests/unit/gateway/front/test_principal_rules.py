"""Who it is that shows a certificate: rules as Kafka writes them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from gateway.front.principal_rules import (
    MAX_SUBJECT_BYTES,
    InvalidRules,
    NoPrincipal,
    PrincipalRules,
)
from gateway.security.certificate import NotACertificate, first_in_pem, parse_certificate
from gateway.security.principal import MAX_NAME_CHARS, Principal
from tests.peers.certificates import self_signed

ALICE = "CN=Alice,OU=Ops,O=Acme,C=DE"


@pytest.mark.parametrize(
    ("rules", "subject", "name"),
    [
        ("DEFAULT", ALICE, ALICE),
        ("RULE:^CN=(.*?),OU=Ops.*$/$1/", ALICE, "Alice"),
        ("RULE:^CN=(.*?),OU=Ops.*$/$1/L", ALICE, "alice"),
        ("RULE:^CN=(.*?),OU=Ops.*$/$1/U", ALICE, "ALICE"),
        ("RULE:^CN=(.*?),OU=(.*?),O=(.*?),C=(.*?)$/$1@$2.$3/L", ALICE, "alice@ops.acme"),
        ("RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L,DEFAULT", ALICE, "alice"),
        ("RULE:CN=(.*?),.*/$0!/", ALICE, f"{ALICE}!"),
        ("RULE:CN=(.*?)/$1/", "CN=abc", "abc"),
        ("RULE:.*/admin/", ALICE, "admin"),
        ("RULE:CN=(.*?),OU=Sales.*/$1/, RULE:CN=(.*?),OU=Ops.*/ops-$1/L ,DEFAULT", ALICE, "ops-alice"),
        ("RULE:CN=(.*?),OU=Sales.*/$1/,DEFAULT", ALICE, ALICE),
        ("RULE:CN=(.*?),OU=Sales.*/$1/", ALICE, None),
        # Part of the name is not enough.
        ("RULE:CN=Alice/x/", ALICE, None),
        ("RULE:OU=Ops/x/", ALICE, None),
        (r"RULE:CN=(.*?)\/(.*)/$2\/$1/", "CN=a/b", "b/a"),
        (r"RULE:CN=(.*)/\$1$1\\/", "CN=a", "$1a\\"),
        ("RULE:CN=(.*)/$12/", "CN=a", "a2"),
        ("RULE:CN=(a)|CN=(b)/<$1$2>/", "CN=b", "<b>"),
        ("RULE:CN=([^,]{1,3}),O=x/$1/", "CN=abc,O=x", "abc"),
        (r"RULE:CN=([\[\]&]+)/$1/", "CN=[&]", "[&]"),
        ("DEFAULT,RULE:.*/x/", ALICE, ALICE),
        ("  DEFAULT  ", ALICE, ALICE),
        # Java's `.` matches no line's end: what has one is nobody's but DEFAULT's.
        ("RULE:CN=(.*)/$1/", "CN=a\nb", None),
        ("RULE:CN=(.*)/$1/", "CN=admin\r", None),
        ("RULE:CN=(.*)/$1/", "CN=admin\u2028", None),
        ("RULE:CN=(.*)/$1/,DEFAULT", "CN=a\nb", "CN=a\nb"),
        ("RULE:CN=((a*)*)*b/x/", "CN=" + "a" * 900, None),
    ],
)
def test_the_first_rule_that_matches_the_whole_name_decides(
    rules: str, subject: str, name: str | None
) -> None:
    assert PrincipalRules(rules).name(subject) == name


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ("", "there is no rule"),
        (" ", "there is no rule"),
        ("default", "begins with no rule"),
        ("DEFAULT;DEFAULT", "follows a rule"),
        ("DEFAULTS", "follows a rule"),
        (",DEFAULT", "begins with no rule"),
        ("RULE:.*", "begins with no rule"),
        ("RULE:.*/x", "begins with no rule"),
        ("RULE:.*/x/X", "follows a rule"),
        ("RULE:.*/x/LU", "follows a rule"),
        ("RULE:(/x/", "missing"),
        ("RULE:(?=x)/x/", "without look-around"),
        (r"RULE:(a)\1/x/", "references to groups"),
        ("RULE:a++/x/", "matched by RE2"),
        (r"RULE:\p{Lower}/x/", "matched by RE2"),
        ("RULE:[a-z&&[def]]/x/", "something else to Java"),
        ("RULE:[a[bc]]/x/", "something else to Java"),
        ("RULE:[[:alpha:]]/x/", "something else to Java"),
        ("RULE:[]a]/x/", "something else to Java"),
        (r"RULE:\v/x/", "otherwise than Java"),
        (r"RULE:\Qa\E/x/", "otherwise than Java"),
        ("RULE:(?iU)a/x/", "otherwise than Java"),
        ("RULE:.*/$/", "after \\$ stands the number"),
        ("RULE:.*/$1/", "0 groups"),
        ("RULE:(.*)/$2/", "1 groups"),
        ("RULE:(.*)/${x}/", "after \\$ stands the number"),
        ("RULE:" + "a" * 1001 + "/x/", "1001 characters"),
    ],
)
def test_what_is_no_list_of_rules_is_refused_at_the_start(rules: str, said: str) -> None:
    with pytest.raises(InvalidRules, match=said):
        PrincipalRules(rules)


def der_of(directory: Path, subject: str) -> bytes:
    return first_in_pem(self_signed(directory, subject=subject)[0].read_text())


def test_a_certificate_says_who_somebody_is_and_how_long(tmp_path: Path) -> None:
    der = der_of(tmp_path, "/C=DE/O=Acme, Inc./OU=Ops/CN=alice")
    assert PrincipalRules().principal(der) == Principal("User", r"CN=alice,OU=Ops,O=Acme\, Inc.,C=DE")
    rules = PrincipalRules("RULE:^CN=(.*?),.*$/$1/")
    assert rules.principal(der) == Principal("User", "alice")
    days = (parse_certificate(der).ends - datetime.now(UTC)).total_seconds() / 86_400
    assert 29 < days <= 30


@pytest.mark.parametrize(
    ("rules", "subject", "said"),
    [
        ("RULE:CN=bob/bob/", "/CN=alice", "no rule of --tls-principal-rules matches .* 'CN=alice'"),
        ("DEFAULT", "/", "makes a name of 0 characters"),
        ("RULE:.*//", "/CN=alice", "makes a name of 0 characters"),
        ("DEFAULT", "".join(f"/OU={n:064}" for n in range(15)), f"1 to {MAX_NAME_CHARS} may be"),
        ("DEFAULT", "".join(f"/OU={n:064}" for n in range(40)), f"{MAX_SUBJECT_BYTES} may be"),
    ],
)
def test_whom_no_rule_names_is_nobody(tmp_path: Path, rules: str, subject: str, said: str) -> None:
    der = der_of(tmp_path, subject)
    with pytest.raises(NoPrincipal, match=said):
        PrincipalRules(rules).principal(der)


def test_no_beginning_and_no_change_of_a_certificate_does_anything_else(tmp_path: Path) -> None:
    whole = der_of(tmp_path, "/CN=alice")
    for size in range(len(whole)):
        with pytest.raises(NoPrincipal):
            PrincipalRules().principal(whole[:size])
    for place in range(len(whole)):
        for byte in (0x00, 0x30, 0x80, 0xFF):
            try:
                PrincipalRules().principal(whole[:place] + bytes([byte]) + whole[place + 1 :])
            except NoPrincipal:
                continue


@pytest.mark.parametrize(
    "text",
    ["", "hello", "-----BEGIN CERTIFICATE-----", "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----"],
)
def test_a_file_without_a_certificate_is_refused(text: str) -> None:
    with pytest.raises(NotACertificate):
        parse_certificate(first_in_pem(text))
