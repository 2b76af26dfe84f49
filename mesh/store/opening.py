"""Opening a store: what may be mended by itself, and what is refused.

Rule: what was never fsynced may be cut off (a torn or zeroed end of the newest write-ahead log, as a power
loss leaves it); anything else that cannot be read is refused, naming file, offset and next step, because
opening without it would serve a log with a hole in silence.
"""

import logging
from pathlib import Path

from mesh.data_directory import DataDirectoryRefused
from mesh.links import Context
from mesh.protocol.disk import StoreCorrupt
from mesh.store import wal
from mesh.store.db import StoreFailed
from mesh.store.identity import Identity
from mesh.store.store import Store, StoreSettings

logger = logging.getLogger(__name__)


def open_store(
    context: Context, settings: StoreSettings, identity: Identity | None = None, *, accept_loss: bool = False
) -> Store:
    """Open a store, after a look at its write-ahead logs. With `identity` it is who that and the database
    agree on.

    With `accept_loss` a corrupt log is cut off at its first bad byte, and what went with it is said.
    Raises DataDirectoryRefused for data that cannot be read whole, StoreFailed when the disk fails.
    """
    mend(settings.path, accept_loss=accept_loss)
    try:
        return Store(context, settings, identity)
    except (StoreCorrupt, StoreFailed) as error:
        raise DataDirectoryRefused(
            settings.path,
            f"RocksDB cannot open it: {error}",
            "If other stores hold its data, start an empty store and let it take this one's place (dafka"
            " store replace); else restore the directory from a copy. Nothing is served with a part missing",
        ) from None


def mend(path: Path, *, accept_loss: bool) -> bool:
    """Cut off what may go, log by log: more than one may be torn. True if something was given up that may
    have been acknowledged.

    Raises DataDirectoryRefused.
    """
    given_up = False
    while path.exists():
        report = wal.examine(path)
        if report.file is None or report.remainder_kind == "none":
            break
        if report.remainder_kind != "corrupt":
            logger.warning("%s: cut off, as it was never fsynced", report.cause)
            wal.cut(report.file, report.last_whole_record_end)
            continue
        if not accept_loss:
            raise DataDirectoryRefused(path, report.cause, report.next_step)
        given_up = True
        logger.error("%s: given up, as --accept-loss says", report.cause)
        _cut_corrupt(path, report.file, report.corrupt_offset)
    return given_up


def is_damaged(path: Path) -> bool:
    """Whether a log is damaged where only an accepted loss lets it be opened. Raises OSError."""
    return path.exists() and wal.examine(path).remainder_kind == "corrupt"


def cut(path: Path) -> None:
    """Cut off whatever cannot be read, without a word: for who has said before what it is. Raises OSError."""
    while path.exists():
        report = wal.examine(path)
        if report.file is None or report.remainder_kind == "none":
            return
        if report.remainder_kind == "corrupt":
            _cut_corrupt(path, report.file, report.corrupt_offset)
        else:
            wal.cut(report.file, report.last_whole_record_end)


def _cut_corrupt(path: Path, file: Path, offset: int) -> None:
    """Newer logs go too: one that goes on behind a gap is none."""
    wal.cut(file, offset)
    for log in path.glob("*.log"):
        if log.name > file.name:
            log.unlink()
