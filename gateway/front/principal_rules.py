"""What somebody is called whom a certificate names: `ssl.principal.mapping.rules` (``SslPrincipalMapper``).

    RULE:^CN=(.*?),OU=Ops,.*$/$1/L, DEFAULT

The rules are tried one after the other: the first whose expression matches the whole name of the subject
says what the principal's name is. `DEFAULT` is the subject's name as it is. Whom none of them matches is
nobody, and not ANONYMOUS.

The expressions are Java's as far as RE2 has the same, which is never slow. Where it lacks something, or takes
it for something else, the rule is refused at the start. Three more things are not as in Kafka, each so that
nobody gets a name by mistake: a replacement that names no group of its expression is refused, an expression
that matches is replaced once (Kafka's `.*` gives its replacement twice), and a name with a line's end in it,
which Java's `.` does not match, is matched by no rule.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from gateway.common.pattern import InvalidPattern, Pattern
from gateway.security.certificate import NotACertificate, parse_certificate
from gateway.security.distinguished_name import distinguished_name
from gateway.security.principal import MAX_NAME_CHARS, USER, Principal

MAX_SUBJECT_BYTES: Final = 2_000
"""Of a subject that is looked at."""

LINE_ENDS: Final = frozenset("\n\r\x85\u2028\u2029")
"""As Java's `.` has them."""

_RULE: Final = re.compile(r"RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?)", re.DOTALL)
_COMMA: Final = re.compile(r"\s*(?:,\s*|$)")
_NOT_SHARED: Final = ((re.compile(r"\\[CvVQE0]"), "an escape"), (re.compile(r"\(\?[a-zA-Z]*U"), "a flag"))
"""What RE2 takes for something else than Java, outside of [...]."""

_WRITTEN: Final = "write them as RULE:EXPRESSION/REPLACEMENT/, with L or U after it, or DEFAULT"


class InvalidRules(ValueError):
    """What the user wrote is no list of rules. The message says where, and what to write."""


class NoPrincipal(Exception):
    """The certificate names nobody. The message says why, for the log."""


class Rule(NamedTuple):
    """One of them. `replacement` has texts, and numbers of groups; `change` is L, U, or empty."""

    pattern: Pattern
    replacement: Sequence[str | int]
    change: str


class PrincipalRules:
    """A list of them. Raises InvalidRules when it is made."""

    def __init__(self, text: str = "DEFAULT") -> None:
        self._rules = list(_parsed(text))
        if not self._rules:
            raise InvalidRules(f"there is no rule in it: {_WRITTEN}")

    def principal(self, certificate: bytes) -> Principal:
        """Who shows this certificate (as DER). Raises NoPrincipal."""
        try:
            subject = parse_certificate(certificate).subject
            if len(subject) > MAX_SUBJECT_BYTES:
                raise NoPrincipal(
                    f"the subject of its certificate has {len(subject)} bytes: {MAX_SUBJECT_BYTES} may be"
                )
            name = distinguished_name(subject)
        except NotACertificate as error:
            raise NoPrincipal(f"its certificate cannot be read: {error}") from None
        found = self.name(name)
        if found is None:
            raise NoPrincipal(
                f"no rule of --tls-principal-rules matches the subject of its certificate: {name!r}"
            )
        if not 1 <= len(found) <= MAX_NAME_CHARS:
            raise NoPrincipal(
                f"the subject of its certificate, {name!r}, makes a name of {len(found)} characters: "
                f"1 to {MAX_NAME_CHARS} may be"
            )
        return Principal(USER, found)

    def name(self, subject: str) -> str | None:
        """What somebody is called whose certificate is for this name; None: no rule matches."""
        has_lines = not LINE_ENDS.isdisjoint(subject)
        for rule in self._rules:
            if rule is None:
                return subject
            parts = None if has_lines else rule.pattern.taken_apart(subject)
            if parts is not None:
                return _changed(rule, parts)
        return None


def _changed(rule: Rule, parts: Sequence[str]) -> str:
    name = "".join(parts[one] if isinstance(one, int) else one for one in rule.replacement)
    return {"L": name.lower(), "U": name.upper()}.get(rule.change, name)


def _parsed(text: str) -> Iterator[Rule | None]:
    """Each rule; None for DEFAULT. Raises InvalidRules."""
    text, at = text.strip(), 0
    while at < len(text):
        found = _RULE.match(text, at)
        if found is not None:
            yield _rule(*found.groups())
            at = found.end()
        elif text.startswith("DEFAULT", at):
            yield None
            at += len("DEFAULT")
        else:
            raise InvalidRules(f"{text[at : at + 64]!r} begins with no rule: {_WRITTEN}")
        comma = _COMMA.match(text, at)
        if comma is None:
            raise InvalidRules(f"{text[at : at + 64]!r} follows a rule: {_WRITTEN}, and commas between them")
        at = comma.end()


def _rule(expression: str, replacement: str, change: str) -> Rule:
    _refuse_what_is_not_shared(expression)
    try:
        pattern = Pattern(expression)
    except InvalidPattern as error:
        raise InvalidRules(
            f"the expression {expression[:64]!r}: {error} (it is matched by RE2, without look-around and "
            "references to groups)"
        ) from None
    return Rule(pattern, list(_replacement(replacement, pattern.groups)), change)


def _refuse_what_is_not_shared(expression: str) -> None:
    """Raises InvalidRules: RE2 would take it, and mean something else."""
    outside = re.sub(r"\\[^CvVQE0]", "", expression)
    for pattern, what in _NOT_SHARED:
        if (found := pattern.search(outside)) is not None:
            raise InvalidRules(
                f"the expression {expression[:64]!r}: {found.group()!r} is {what} that RE2 understands "
                "otherwise than Java; write it without"
            )
    for content in re.findall(r"\[\^?(\]?[^\]]*)\]?", outside):
        if "[" in content or "&&" in content or content.startswith("]"):
            raise InvalidRules(
                f"the expression {expression[:64]!r}: '[', '&&' and a leading ']' within [...] mean "
                "something else to Java than to RE2; write it without, or with a backslash before it"
            )


def _replacement(text: str, groups: int) -> Iterator[str | int]:
    """The parts of it (``Matcher.appendReplacement``): a backslash takes the meaning from what follows, and a
    group's number has as many digits as there are groups for. Raises InvalidRules.
    """
    at = 0
    while at < len(text):
        if text[at] == "\\":
            yield text[at + 1]
            at += 2
        elif text[at] != "$":
            yield text[at]
            at += 1
        else:
            digits = re.match(r"[0-9]*", text[at + 1 :])
            number = digits.group() if digits is not None else ""
            while len(number) > 1 and int(number) > groups:
                number = number[:-1]
            if not number or int(number) > groups:
                raise InvalidRules(
                    f"the replacement {text[:64]!r}: after $ stands the number of one of the expression's "
                    f"{groups} groups (\\$ is a dollar sign)"
                )
            yield int(number)
            at += 1 + len(number)
