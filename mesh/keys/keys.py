"""The keys of one process: its own, and the table of who is who now.

The table follows the directory: it is looked at every `LOOK_SECONDS`, and what depends on it asks at each
message, so a key that was removed does nothing any more. A file that cannot be read leaves what it said
before; the others count. Where nothing can be read, as without a descriptor, which a stranger may see to,
files that are gone are followed all the same: to see that takes none.

Which store is which: a store says its incarnation in what it answers, and members' acknowledgements are
counted by that. So an incarnation belongs to the name that said it first, for as long as that name has a key;
a key that takes the place of an older one has the same name.
"""

import logging
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import trio

from mesh.keys.certificate import MAX_NAME_CHARACTERS, BadCertificate, Certificate
from mesh.keys.directory import (
    MEMBERS,
    KeysRefused,
    Signature,
    member_files,
    read_member,
    read_members,
    read_own,
    signature,
)
from mesh.keys.hearing import NATIVES, Hearing
from mesh.keys.roles import (
    ASKING,
    CLAIMING,
    LINKS,
    Role,
    is_gateways_to_send,
    is_producers_to_send,
    is_readers_to_send,
    is_stores_to_send,
)
from mesh.log_bounds import LogBounds
from wireproto.dafka import ids
from wireproto.dafka.additions import Pong
from wireproto.dafka.messages import UNANNOUNCED

LOOK_SECONDS = 1.0
"""Longest time that a key lasts once its file is gone, beside that of the look itself."""

MAX_CLAIMS = 16
"""Incarnations that are remembered of one name: a store has one, and few before it. The oldest goes first, so
nobody's claims push out another name's.
"""

INCARNATION_CHARACTERS = 32
"""So much of what a store calls itself is logged: as long as an incarnation is."""

logger = logging.getLogger(__name__)


class Keys:
    """What a `Context` with keys asks. `run` follows the directory."""

    def __init__(self, path: Path) -> None:
        """Raises `KeysRefused`."""
        self.path = path
        self.own = read_own(path)
        self.refused_messages = 0
        """Messages that their senders' roles do not allow."""
        self.refused_peers = 0
        """Handshakes of keys that are none of ours, or have no business with this node."""
        self._messages_log, self._members_log, self._strangers_log = LogBounds(), LogBounds(), LogBounds()
        self._hearing = Hearing()
        self._banished: set[str] = set()
        """Keys that listened to what is not theirs: nobody's, until this process is started again."""
        self._listeners: dict[Callable[[bytes], Iterable[str]], None] = {}
        self._changed: dict[Callable[[], None], None] = {}
        self._claims: dict[str, str] = {}
        """Incarnation -> the name of whose key it is."""
        self._claimed: dict[str, dict[str, None]] = {}
        """Name -> its incarnations, in the order in which it said them first."""
        self._trouble = ""
        """Why the directory cannot be read now."""
        self._unread: dict[Path, str] = {}
        """Files that count as they were before, and why."""
        self._signature: Signature | None = signature(path)
        self._files = read_members(path)
        self._members: dict[str, Certificate] = {}
        self._make_table()

    # the table --------------------------------------------------------------------------------------------

    def holder(self, public: str) -> Certificate | None:
        """Whose key this is now, and what that may do; None for a stranger's."""
        return self._members.get(public)

    def peer(self, public: str) -> Certificate | None:
        """As `holder`, of who has business with this node."""
        found = self._members.get(public)
        return found if found is not None and found.role in LINKS[self.own.role] else None

    def towers(self) -> list[str]:
        """The keys that a tower may have."""
        return [public for public, member in self._members.items() if member.role is Role.TOWER]

    def members(self) -> Iterable[Certificate]:
        return self._members.values()

    def on_change(self, tell: Callable[[], None]) -> None:
        """Have this called whenever the table is another one."""
        self._changed[tell] = None

    def forget(self, tell: Callable[[], None]) -> None:
        """No longer."""
        self._changed.pop(tell, None)

    async def run(self) -> None:
        """Follow the directory, for ever."""
        while True:
            await trio.sleep(LOOK_SECONDS)
            await self.look()

    @property
    def is_stale(self) -> bool:
        """Whether something cannot be read now, and counts as it was before."""
        return bool(self._trouble or self._unread)

    async def look(self) -> None:
        """Read what has changed."""
        trouble = ""
        try:
            has_changed = await trio.to_thread.run_sync(self._read)
        except (OSError, KeysRefused) as error:
            trouble = str(error)
            has_changed = await trio.to_thread.run_sync(self._drop_gone)
        self._say_trouble(trouble)
        if has_changed:
            self._make_table()
            logger.info("the keys in %s have changed: %d are known", self.path, len(self._members))
            self._tell()

    def _say_trouble(self, trouble: str) -> None:
        """Once for each, and not at each look."""
        if trouble and trouble != self._trouble:
            logger.error(
                "the keys in %s cannot be read, and stay as they were, but for those that are removed: %s",
                self.path,
                trouble,
            )
        elif self._trouble and not trouble:
            logger.info("the keys in %s can be read again", self.path)
        self._trouble = trouble

    def _tell(self) -> None:
        for tell in list(self._changed):
            tell()

    def _read(self) -> bool:
        """Whether something has changed. In a thread. Raises OSError and `KeysRefused`."""
        found = signature(self.path)
        if found == self._signature:
            return False
        if not found and not (self.path / MEMBERS).is_dir():
            raise KeysRefused(f"{self.path / MEMBERS} is gone")
        files: dict[Path, Certificate] = {}
        unread: dict[Path, str] = {}
        is_whole = True
        for file in member_files(self.path):
            try:
                files[file] = read_member(file)
            except FileNotFoundError:
                continue
            except (OSError, BadCertificate) as error:
                unread[file] = str(error)
                is_whole = is_whole and isinstance(error, BadCertificate)
                if self._unread.get(file) != unread[file]:
                    logger.error("%s cannot be used, and counts as it was before, if at all: %s", file, error)
                if file in self._files:
                    files[file] = self._files[file]
        has_changed = files != self._files
        # What could not be read at all is read again at the next look, though it is the same then.
        self._files, self._unread, self._signature = files, unread, found if is_whole else None
        return has_changed

    def _drop_gone(self) -> bool:
        """Whether files are gone: what can be told without a descriptor. In a thread."""
        gone = set(filter(_is_gone, self._files))
        if not gone or not (self.path / MEMBERS).is_dir():
            return False
        self._files = {file: member for file, member in self._files.items() if file not in gone}
        # A file that is moved back is as it was, and is read all the same.
        self._signature = None
        return True

    def _make_table(self) -> None:
        members: dict[str, Certificate] = {}
        for file, certificate in self._files.items():
            if members.setdefault(certificate.public, certificate) != certificate:
                logger.error("%s: another file gives the same key to somebody else, and counts", file)
        for public in self._banished:
            members.pop(public, None)
        for public in self._hearing.owners():
            if public and public not in members:
                self._hearing.forget(public)
        self._members = members
        names = {member.name for member in members.values()}
        self._claimed = {name: stores for name, stores in self._claimed.items() if name in names}
        self._claims = {store: name for name, stores in self._claimed.items() for store in stores}

    # what they may do -------------------------------------------------------------------------------------

    def allows(self, public: str, message: Any) -> bool:
        """Whether whoever has this key may send this now; counted, if not."""
        member = self._members.get(public)
        if member is not None and self._may_send(member, message):
            return True
        what = type(message).__name__
        if member is None:
            self.refuse("a key that was removed", what)
        else:
            self.refuse(f"{member.name}, a {member.role}", what, self._why_not_itself(member, message))
        return False

    def refuse(self, who: str, what: str, why: str = "") -> None:
        """Count a message that is dropped, and say it (`LogBounds`)."""
        self.refused_messages += 1
        if self._messages_log.may(f"{who}: {what}{why}", who):
            logger.warning(
                "dropped a message that is not its sender's to send: %s, from %s%s", what, who, why
            )

    def _why_not_itself(self, member: Certificate, message: Any) -> str:
        """What more is to be said of a message that a store may not send; "" for others."""
        if member.role is not Role.STORE or not is_stores_to_send(message):
            return ""
        if isinstance(message, Pong) and message.name != member.name:
            name = message.name[:MAX_NAME_CHARACTERS]
            return f". It says that its name is {name!r}, and a store has the name of its key"
        store = message.store.removeprefix(UNANNOUNCED)
        return (
            f". It says that it is {store[:INCARNATION_CHARACTERS]!r}, which is {self._claims.get(store)}'s. "
            "If its data directory was moved to there, remove that one's keys first (dafka keys remove)"
        )

    def _may_send(self, member: Certificate, message: Any) -> bool:
        if member.role is Role.GATEWAY:
            if not is_gateways_to_send(message):
                return False
            if type(message) in ASKING:
                self._learn(member.public, message.requester.encode())
            return True
        if member.role is Role.STORE:
            return is_stores_to_send(message) and self._is_itself(member, message)
        if member.role is Role.PRODUCER:
            return is_producers_to_send(message, member.may_publish)
        return member.role is Role.READER and is_readers_to_send(message)

    def _is_itself(self, member: Certificate, message: Any) -> bool:
        """Whether the incarnation that a store's message names is that store's, and its name as well."""
        if isinstance(message, Pong):
            if message.name != member.name:
                return False
        elif type(message) not in CLAIMING:
            return True
        store = message.store.removeprefix(UNANNOUNCED)
        if not store:
            return True
        claimed = self._claims.get(store)
        if claimed is None:
            self._claim(store, member.name)
            return True
        return claimed == member.name

    def _claim(self, store: str, name: str) -> None:
        stores = self._claimed.setdefault(name, {})
        if len(stores) >= MAX_CLAIMS:
            oldest = next(iter(stores))
            del stores[oldest], self._claims[oldest]
        stores[store] = None
        self._claims[store] = name

    def may_subscribe(self, public: str, prefix: bytes) -> bool:
        """Whether whoever has this key may hear this here. Who may not is nobody from then on: ZeroMQ has
        given it something already.
        """
        member = self.peer(public)
        if member is None:
            return False
        if self.own.role is Role.TOWER:
            return True
        if not self._hearing.may(member.role, prefix):
            self._banish(member, prefix[:64])
            return False
        if member.role is Role.GATEWAY and prefix[:1] == ids.DIRECT_RECORD:
            self._learn(public, prefix[1:])
        return True

    def heard_inside(self, prefix: bytes) -> None:
        """A gateway in this process has subscribed to that."""
        if prefix[:1] == ids.DIRECT_RECORD:
            self._learn("", prefix[1:])

    def on_life(self, listeners: Callable[[bytes], Iterable[str]]) -> None:
        """Have this asked for the keys that are subscribed to ids of a life."""
        self._listeners[listeners] = None

    def forget_listeners(self, listeners: Callable[[bytes], Iterable[str]]) -> None:
        """No longer."""
        self._listeners.pop(listeners, None)

    def _learn(self, key: str, name: bytes) -> None:
        """A gateway has ids that begin so: natives that are known to be subscribed to one are cut."""
        life = self._hearing.learn(key, name)
        if life is None:
            return
        for listeners in list(self._listeners):
            for public in list(listeners(life)):
                member = self._members.get(public)
                if member is not None and member.role in NATIVES:
                    self._banish(member, life)

    def _banish(self, member: Certificate, prefix: bytes) -> None:
        """It listened to what is not for it: its links are cut, and its key counts no more."""
        logger.error(
            "%s, a %s, subscribed to %r, which is not for it: its key counts no more here, until this "
            "process is started again",
            member.name,
            member.role,
            prefix,
        )
        self.refused_peers += 1
        self._banished.add(member.public)
        self._make_table()
        self._tell()

    def admits(self, public: str, address: str = "") -> bool:
        """Whether whoever has this key may connect to this node, from this address; counted, if not."""
        if self.peer(public) is not None:
            return True
        self.refused_peers += 1
        member = self._members.get(public)
        log, source = (self._strangers_log, address) if member is None else (self._members_log, member.name)
        if log.may(f"{address} {public}", source):
            logger.warning(
                "refused the link of %s at %s: %s",
                f"key {public}" if member is None else f"{member.name}, a {member.role},",
                address or "an address that is not known",
                self.why_not_admitted(public),
            )
        return False

    def why_not_admitted(self, public: str) -> str:
        """Why who has this key has no business with this node, and what to do."""
        if public in self._banished:
            return (
                "it subscribed to what is not for it, and counts no more until this process is started again"
            )
        if public in self._members:
            return f"a {self.own.role} has no links with that role"
        return (
            f"it is no member here. 'dafka keys add {self.path} CERTIFICATE', with its own.key, makes it one"
        )


def _is_gone(file: Path) -> bool:
    try:
        file.stat()
    except FileNotFoundError:
        return True
    except OSError:
        pass  # it may be there
    return False
