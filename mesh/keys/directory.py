"""The directory of a node's keys.

::

    DIR/own.key             this node's certificate, to be given to the others
    DIR/own.key_secret      the same with the secret key: its owner's alone (0600)
    DIR/members/*.key       the certificates of those that this node takes for members of the mesh

One name may have several keys: an old one and the one that takes its place. What a file of `members` says is
believed: who may write there decides who is on the mesh, so what everybody may write is refused. Links are
followed, since that is how Kubernetes mounts a Secret.
"""

import contextlib
import os
import re
import stat
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from mesh.keys.certificate import BadCertificate, Certificate, from_text, to_text
from mesh.private_files import make_directory, new_file

OWN = "own.key"
OWN_SECRET = "own.key_secret"  # noqa: S105 - a file's name
MEMBERS = "members"
SUFFIX = ".key"

_ADDED = re.compile(r"(.+)-([0-9a-f]{8})")
"""A file's name without the suffix: a member's name, and the short form of its key."""

MAX_FILE_BYTES = 16 * 1024
"""A certificate has some hundred bytes, and up to `MAX_SUBJECTS` subjects."""

NAMED_DIRECTORIES = 5
"""Directories with keys that are named where one above them was given."""

MAX_MEMBERS = 1024
"""Certificates of one mesh: as many nodes as a tower speaks of."""


LOOK = ", and look at what is in it ('dafka keys list')"
"""What to do with a directory that was everybody's, once it is not."""


class KeysRefused(Exception):
    """The keys in a directory cannot be used; the text says why, and what to do."""

    exit_code = 2


Signature = tuple[tuple[str, int, int, int, int], ...]
"""What tells that files are others: names, inodes, times and sizes. Of the times one is that of the last
change of a file's mode, for which a file may have been refused.
"""


def read_own(path: Path) -> Certificate:
    """This node's certificate with its secret key. Raises `KeysRefused`."""
    file = path / OWN_SECRET
    try:
        _check_is_not_everybodys(path)
        found = _read(file, private=True)
    except (FileNotFoundError, NotADirectoryError):
        raise KeysRefused(_no_key(path)) from None
    except (OSError, BadCertificate) as error:
        raise KeysRefused(f"{file}: {_why(error)}. Put back the file that 'dafka keys init' made") from None
    if not found.secret:
        raise KeysRefused(f"{file} has no secret key: put back the file that 'dafka keys init' made")
    return found


def check_has_key(path: Path) -> None:
    """Raises `KeysRefused`: no process has its keys in this directory."""
    if not (path / OWN_SECRET).is_file():
        raise KeysRefused(_no_key(path))


def _no_key(path: Path) -> str:
    if path.is_file():
        return f"{path} is a file: give the directory that it is in, {path.parent}"
    below = [str(file.parent) for file in sorted(path.glob(f"*/{OWN_SECRET}"))[:NAMED_DIRECTORIES]]
    if below:
        return f"{path} has no {OWN_SECRET}, and {', '.join(below)} have: is one of them meant?"
    missing = f"has no {OWN_SECRET}" if path.is_dir() else "is not there"
    return f"{path} {missing}: make this node's key with 'dafka keys init {path} --name NAME --role ROLE'"


def read_members(path: Path) -> dict[Path, Certificate]:
    """The certificates of the members, by file. Raises `KeysRefused` if one cannot be used."""
    found, broken = sorted_members(path)
    for file, error in broken.items():
        raise KeysRefused(f"{file}: {error}. Remove the file, then add it again with 'dafka keys add'")
    return found


def sorted_members(path: Path) -> tuple[dict[Path, Certificate], dict[Path, BadCertificate]]:
    """The certificates of the members, by file, and what is wrong with the files that have none: who adds and
    removes members mends these. Raises `KeysRefused` if a file cannot be read.
    """
    found: dict[Path, Certificate] = {}
    broken: dict[Path, BadCertificate] = {}
    for file in member_files(path):
        try:
            found[file] = read_member(file)
        except BadCertificate as error:
            broken[file] = error
        except OSError as error:
            raise KeysRefused(f"{file}: {_why(error)}") from None
    return found, broken


def read_member(file: Path) -> Certificate:
    """The certificate in a file, without a secret. Raises `BadCertificate` and OSError."""
    return replace(_read(file), secret="")


def member_files(path: Path) -> list[Path]:
    """The files with members' certificates, sorted; none if there is no such directory. Raises `KeysRefused`
    for too many, and where everybody may add some.
    """
    folder = path / MEMBERS
    try:
        _check_is_not_everybodys(path)
        if why := _why_anybodys(folder, folder.stat().st_mode):
            raise KeysRefused(f"{folder}: {why}{LOOK}")
        found = sorted(file for file in folder.iterdir() if file.suffix == SUFFIX and file.name[0] != ".")
    except FileNotFoundError:
        return []
    if len(found) > MAX_MEMBERS:
        raise KeysRefused(
            f"{folder} has more than {MAX_MEMBERS} certificates: remove those of nodes that are gone"
        )
    return found


def signature(path: Path) -> Signature:
    """Another one as soon as a member's file is. Raises OSError and `KeysRefused`."""
    return tuple(_signatures(member_files(path)))


def _signatures(files: list[Path]) -> Iterator[tuple[str, int, int, int, int]]:
    for file in files:
        with contextlib.suppress(FileNotFoundError):  # removed in between: the next look sees it
            found = file.stat()
            yield file.name, found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size


def make(path: Path, certificate: Certificate) -> None:
    """Write a new node's own certificate. Raises `KeysRefused` where there is one, and OSError."""
    for name in (OWN, OWN_SECRET):
        if (path / name).exists():
            raise KeysRefused(
                f"{path} has a key already, and it is not replaced: give another directory. To rotate keys, "
                "make the new one there, add it everywhere, and start the node with it"
            )
    make_directory(path / MEMBERS)
    # Both are whole before one of them has its name: half a key would have to be removed by hand.
    texts = {OWN_SECRET: to_text(certificate, with_secret=True), OWN: to_text(certificate)}
    with _drafts(path / name for name in texts) as drafts:
        for draft, text in zip(drafts, texts.values(), strict=True):
            _write(draft, text)
        for draft, name in zip(drafts, texts, strict=True):
            draft.replace(path / name)


def add(path: Path, certificate: Certificate) -> Path:
    """Take a certificate for a member's; the file that has it then, whatever it had. Raises `KeysRefused` and
    OSError.
    """
    folder = path / MEMBERS
    make_directory(folder)
    members, broken = sorted_members(path)
    for file, other in members.items():
        if other.public == certificate.public and other.name != certificate.name:
            raise KeysRefused(f"{certificate.name} has the key of {other.name} ({file}): a key is one node's")
    file = folder / f"{certificate.name}-{certificate.short_key}{SUFFIX}"
    count = len(members) + len(broken)
    if file not in members and file not in broken and count >= MAX_MEMBERS:
        raise KeysRefused(
            f"{folder} has {count} certificates, and no more may be: remove those of nodes that are "
            "gone (dafka keys remove)"
        )
    with _drafts([file]) as (draft,):
        _write(draft, to_text(certificate))
        draft.replace(file)
    return file


def remove(path: Path, name: str, short_key: str = "") -> list[Path]:
    """Take a name, or one key of it, out of the members; the files that went. Of those that are broken the
    name and the key are those in the file's name, as `add` gives it. Raises `KeysRefused` and OSError.
    """
    members, broken = sorted_members(path)
    named = [(file, one.name, one.short_key) for file, one in members.items()]
    named += [(file, *_name_and_key(file.stem)) for file in broken]
    gone = [file for file, whose, key in named if whose == name and key.startswith(short_key)]
    if not gone:
        raise KeysRefused(
            f"{path} has no such member: 'dafka keys list {path}' shows them, and what tells their keys apart"
        )
    for file in gone:
        file.unlink()
    return gone


def _name_and_key(stem: str) -> tuple[str, str]:
    """Of a member's file by what `add` called it; somebody else may have called it by the name alone."""
    added = _ADDED.fullmatch(stem)
    return (added[1], added[2]) if added is not None else (stem, "")


@contextlib.contextmanager
def _drafts(files: Iterable[Path]) -> Iterator[list[Path]]:
    """Names beside these files for what they are to have; what still has such a name at the end goes."""
    drafts = [file.with_name(f".{file.name}.new") for file in files]
    try:
        yield drafts
    finally:
        for draft in drafts:
            draft.unlink(missing_ok=True)


def _write(file: Path, text: str) -> None:
    with os.fdopen(new_file(file), "w", encoding="utf-8", errors="strict") as opened:
        opened.write(text)
        opened.flush()
        os.fsync(opened.fileno())


def _read(file: Path, *, private: bool = False) -> Certificate:
    """Raises `BadCertificate`, OSError, and `KeysRefused` for a secret that others may read."""
    with os.fdopen(os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as opened:
        found = os.fstat(opened.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise BadCertificate("it is no file")
        if private and found.st_mode & 0o077:
            raise KeysRefused(
                f"{file} has a secret key, and others than its owner may use it (mode "
                f"{stat.S_IMODE(found.st_mode):04o}): 'chmod 600 {file}'; make a new key if somebody read it"
            )
        if why := _why_anybodys(file, found.st_mode):
            raise BadCertificate(why)
        content = opened.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise BadCertificate(f"it is larger than {MAX_FILE_BYTES} bytes")
    try:
        return from_text(content.decode())
    except UnicodeDecodeError:
        raise BadCertificate("it is no text") from None


def _check_is_not_everybodys(path: Path) -> None:
    """Raises `KeysRefused` where everybody may put other keys into the directory or in place of `members`,
    and OSError. Where it is sticky, nobody takes the place of what is there.
    """
    mode = path.stat().st_mode
    if not mode & stat.S_ISVTX and (why := _why_anybodys(path, mode)):
        raise KeysRefused(f"{path}: {why}{LOOK}")


def _why_anybodys(path: Path, mode: int) -> str:
    """Why everybody of this machine may say who is on the mesh, and what to do; "" if not. Kubernetes gives
    such modes to what it mounts read-only.
    """
    if not mode & stat.S_IWOTH or os.statvfs(path).f_flag & os.ST_RDONLY:
        return ""
    return (
        f"everybody may write it (mode {stat.S_IMODE(mode):04o}), and so say who is on the mesh: "
        f"'chmod o-w {path}'"
    )


def _why(error: OSError | BadCertificate) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
