"""Opening a store: what may be mended by itself, and what is refused.

Rule: what nothing says was ever fsynced may be cut off (an end of the write-ahead log that is not whole, as a
power loss leaves it); anything else that cannot be read is refused, naming file, offset and next step,
because opening without it would serve a log with a hole in silence.
"""

import logging
from pathlib import Path

from mesh.data_directory import DataDirectoryRefused
from mesh.links import Context
from mesh.protocol.disk import StoreCorrupt
from mesh.store.db import Database, LogDamaged, StoreFailed
from mesh.store.identity import Identity
from mesh.store.store import Store, StoreSettings
from mesh.store.write_ahead.replaying import Examined, cut

logger = logging.getLogger(__name__)


def open_store(
    context: Context, settings: StoreSettings, identity: Identity | None = None, *, accept_loss: bool = False
) -> Store:
    """Open a store. With `identity` it is who that and the database agree on.

    With `accept_loss` a corrupt log is cut off at its first bad byte, and what went with it is said.
    Raises DataDirectoryRefused for data that cannot be read whole or a cut that the disk does not take,
    StoreFailed when the disk fails.
    """
    try:
        return _store(context, settings, identity, accept_loss=accept_loss)
    except (StoreCorrupt, StoreFailed) as error:
        raise DataDirectoryRefused(
            settings.path,
            f"the database cannot be opened: {error}",
            "If other stores hold its data, start an empty store and let it take this one's place (dafka"
            " store replace); else restore the directory from a copy. Nothing is served with a part missing",
        ) from None


def _store(
    context: Context, settings: StoreSettings, identity: Identity | None, *, accept_loss: bool
) -> Store:
    """Raises DataDirectoryRefused for a damaged log, StoreCorrupt, StoreFailed."""
    try:
        return Store(context, settings, identity)
    except LogDamaged as damaged:
        if not accept_loss:
            raise refused(settings.path, damaged) from None
        logger.error("%s: given up, as --accept-loss says", damaged)
        _cut(damaged)
    return Store(context, settings, identity)


def _cut(damaged: LogDamaged) -> None:
    """Raises `StoreFailed`."""
    try:
        cut(damaged.examined)
    except OSError as error:
        raise StoreFailed(f"the write-ahead log cannot be cut: {error}") from None


def examined(path: Path) -> Examined:
    """The write-ahead log of a store that is stopped. Raises `StoreFailed`."""
    database = Database(path, read_only=True)
    try:
        return database.examined
    finally:
        database.close()


def refused(path: Path, damaged: LogDamaged) -> DataDirectoryRefused:
    """What to say of a log that lacks what was acknowledged."""
    verdict = damaged.examined.verdict
    return DataDirectoryRefused(path, verdict.cause, verdict.next_step)


def is_damaged(path: Path) -> bool:
    """Whether the log is damaged where only an accepted loss lets the store be opened. A database that cannot
    be read at all is for who opens it.
    """
    try:
        return path.exists() and examined(path).verdict.kind == "corrupt"
    except StoreFailed:
        return False
