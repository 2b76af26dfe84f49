"""A certificate: a public key, whose it is, and what that may do; its owner's has the secret key besides.

The text is czmq's (zcert: ZPL, keys in Z85), so that C programs read ours and we theirs::

    metadata
        name = "store-1"
        role = "store"
    curve
        public-key = "..."

A file with the secret key ends with `_secret`, as czmq has it. `subjects` are those of a native producer; one
that ends with `*` is a prefix.
"""

import re
from dataclasses import dataclass, field

from mesh.keys.roles import Role
from mesh.keys.z85 import is_key

MAX_NAME_CHARACTERS = 64
"""Characters of the name of whose key it is: it is in a file's name."""

MAX_SUBJECTS = 64
"""Subjects, or prefixes of them, that one producer may publish."""

MAX_SUBJECT_BYTES = 255
"""As on the wire."""

_NAME = re.compile(rf"[A-Za-z0-9_][A-Za-z0-9_.-]{{0,{MAX_NAME_CHARACTERS - 1}}}")
_KEY = re.compile(r"( *)([A-Za-z0-9._/-]+)")
_BARE = re.compile(r"[^\"'#\s]*")
"""A value without quotes."""


class BadCertificate(Exception):
    """A certificate cannot be used; the text says why, without what is secret in it."""


@dataclass(frozen=True)
class Certificate:
    """Whose key it is. `secret` is "" in all but the owner's own file."""

    name: str
    role: Role
    public: str
    subjects: tuple[str, ...] = ()
    secret: str = field(default="", repr=False)

    def may_publish(self, subject: str) -> bool:
        """Whether a native producer may publish under this subject."""
        return any(
            subject.startswith(allowed[:-1]) if allowed.endswith("*") else subject == allowed
            for allowed in self.subjects
        )

    @property
    def short_key(self) -> str:
        """What tells two keys of one name apart in a file's name: hexadecimal."""
        return "".join(f"{ord(character):02x}" for character in self.public[:4])


def to_text(certificate: Certificate, *, with_secret: bool = False) -> str:
    """The certificate as czmq writes it."""
    kind = "secret" if with_secret else "public"
    warning = "DO NOT GIVE THIS FILE TO OTHERS" if with_secret else "Give this file to the other nodes"
    lines = [
        f"#   CURVE {kind} certificate of a node of a Dafka mesh. {warning}.",
        "metadata",
        f'    name = "{certificate.name}"',
        f'    role = "{certificate.role}"',
    ]
    if certificate.subjects:
        lines.append(f'    subjects = "{" ".join(certificate.subjects)}"')
    lines += ["curve", f'    public-key = "{certificate.public}"']
    if with_secret:
        lines.append(f'    secret-key = "{certificate.secret}"')
    return "\n".join(lines) + "\n"


def from_text(text: str) -> Certificate:
    """The reverse of `to_text`. Raises `BadCertificate`."""
    values = _values(text)
    public, secret = values.get("curve/public-key", ""), values.get("curve/secret-key", "")
    if not is_key(public):
        raise BadCertificate("it has no public-key under curve, of 40 characters of Z85")
    if secret and not is_key(secret):
        raise BadCertificate("its secret-key is none: 40 characters of Z85 are needed")
    try:
        role = Role(values.get("metadata/role", ""))
    except ValueError:
        roles = ", ".join(Role)
        raise BadCertificate(f"its metadata names no role: it is one of {roles}") from None
    name = checked_name(values.get("metadata/name", ""))
    subjects = checked_subjects(role, values.get("metadata/subjects", ""))
    return Certificate(name, role, public, subjects, secret)


def checked_name(name: str) -> str:
    """Raises `BadCertificate`: it would be no file's name."""
    if not _NAME.fullmatch(name):
        raise BadCertificate(
            f"{name[:MAX_NAME_CHARACTERS]!r} is no name: up to {MAX_NAME_CHARACTERS} letters, digits and "
            "_ . - are, and the first is no dot or dash"
        )
    return name


def checked_subjects(role: Role, text: str) -> tuple[str, ...]:
    """The subjects, which are separated by spaces. Raises `BadCertificate`."""
    subjects = tuple(text.split())
    if (role is Role.PRODUCER) != bool(subjects):
        raise BadCertificate("a producer, and nobody else, has subjects: those that it may publish")
    if any(not subject.isprintable() or '"' in subject for subject in subjects):
        raise BadCertificate("a subject with quotes, or with what cannot be printed")
    if len(subjects) > MAX_SUBJECTS or any(len(subject.encode()) > MAX_SUBJECT_BYTES for subject in subjects):
        raise BadCertificate(f"more than {MAX_SUBJECTS} subjects, or one of over {MAX_SUBJECT_BYTES} bytes")
    return subjects


def _values(text: str) -> dict[str, str]:
    """What stands in a ZPL text, by path. Raises `BadCertificate`."""
    found: dict[str, str] = {}
    path: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        key = _KEY.match(line)
        value = None if key is None else _value(line[key.end() :].strip())
        depth, odd = divmod(len(key[1]), 4) if key is not None else (0, 1)
        if key is None or value is None or odd or depth > len(path):
            raise BadCertificate(f"line {number} is no ZPL, which czmq's certificates are written in")
        path[depth:] = [key[2]]
        found["/".join(path)] = value
    return found


def _value(rest: str) -> str | None:
    """What a line of ZPL says after its key; None for what is no ZPL. No expression for the whole line: it
    would try for ever how to share out the spaces of a hostile one.
    """
    value = ""
    if rest.startswith("="):
        rest = rest[1:].lstrip()
        if rest[:1] in ("'", '"') and rest:
            value, end, rest = rest[1:].partition(rest[0])
            if not end:
                return None
        else:
            value = rest[: len(_BARE.match(rest)[0])]  # type: ignore[index]  # it matches nothing as well
            rest = rest[len(value) :]
        rest = rest.lstrip()
    return None if rest and not rest.startswith("#") else value
