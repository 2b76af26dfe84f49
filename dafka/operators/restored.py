"""The command `dafka store restored`: a stopped store becomes another one, and keeps what lies on its disk.

For a directory that was put back from a copy: under its old name the gateway refuses it, because it may lack
what it acknowledged. It works on the store's own files; no gateway is asked.
"""

from collections.abc import Iterator
from pathlib import Path

from dafka.commands.exits import CommandFailed
from mesh.data_directory import DataDirectory, DataDirectoryRefused, Kind
from mesh.protocol.disk import StoreCorrupt
from mesh.store.db import LogDamaged, StoreFailed
from mesh.store.identity import become_another
from mesh.store.opening import refused


def restored(directory: Path) -> Iterator[str]:
    """Make another store of the one in this directory; what was done, and what to do next.

    Raises CommandFailed, DataDirectoryRefused (a process uses it, or its data cannot be read).
    """
    if (directory / "store" / "identity.json").is_file():
        raise CommandFailed(
            f"{directory} is of 'dafka standalone', which has one store: put back gateway/ and store/ of the "
            "same copy, or start it once with --rebuild-catalog"
        )
    if not (directory / "identity.json").is_file():
        raise CommandFailed(f"{directory}: there is no store in it. Name the directory given to --data")
    database = directory / "db"
    if not database.is_dir():
        raise CommandFailed(
            f"{directory}: there is no database in it. Mount the disk with db/, or start the store: it finds "
            "that by itself, and is another one then"
        )
    with DataDirectory(directory, Kind.STORE) as lock:
        old = lock.incarnation
        try:
            new = become_another(database, lock)
        except LogDamaged as damaged:
            raise refused(database, damaged) from None
        except (StoreCorrupt, StoreFailed) as error:
            raise DataDirectoryRefused(
                database,
                f"the database cannot be opened: {error}",
                "Put back another copy, or start an empty store",
            ) from None
    yield f"The directory is another store now: incarnation {new}, before {old}"
    yield (
        f"Next: start it as before, then 'dafka store admit {new}', 'dafka store replace {old} {new}': it "
        "keeps what is there and fetches the rest from the other stores"
    )
