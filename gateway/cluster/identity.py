"""Whose cluster a catalog is of: the key `/cluster`, which is the first that is read and the last that is
written, so that a crash in a first start starts it all over.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from gateway.catalog import keys
from gateway.catalog.interface import Catalog, Compare
from gateway.catalog.pieces import in_transactions
from gateway.cluster.feature_levels import are_as_before
from gateway.cluster.rebuild import CannotRebuild, read_back
from gateway.leadership.records import unpack_features
from mesh.data_directory import DataDirectoryRefused
from mesh.reader import Reader

UNNAMED: Final = Compare(keys.CLUSTER, 0)
"""That the catalog is being made: nobody serves what is in it yet."""

logger = logging.getLogger(__name__)


def cluster_in(catalog: Catalog) -> str | None:
    """The cluster's id, None in a catalog that is new.

    Raises DataDirectoryRefused: a newer version has written it, in a format that this one does not know.
    """
    entry = catalog.get(keys.CLUSTER)
    if entry is None:
        return None
    cluster = keys.unpack(entry.value)
    if cluster["format"] > keys.FORMAT:
        raise DataDirectoryRefused(
            catalog.where,
            f"its catalog has format {cluster['format']}, and this version knows none above {keys.FORMAT}",
            "Start the version that wrote it, or a newer one",
        )
    return str(cluster["id"])


def cluster_entry(cluster_id: str, features: bytes | None = None) -> dict[str, bytes]:
    """What says in the catalog whose it is, and the levels of its features (None: as before there were any).
    Its format keeps those out that do not look at levels, where they could not do them.
    """
    old = features is None or are_as_before(unpack_features(features).levels)
    format_ = keys.FORMAT_BEFORE_FEATURES if old else keys.FORMAT
    named = {keys.CLUSTER: keys.pack({"id": cluster_id, "format": format_})}
    return named if features is None else {**named, keys.FEATURES: features}


async def rebuild_catalog(
    catalog: Catalog,
    reader: Reader,
    incarnations: Sequence[str],
    check_features: Callable[[bytes | None], None],
    *,
    accept_loss: bool,
) -> None:
    """Fill a new catalog with what these stores tell. The cluster's own key is left to be written after it.

    Raises DataDirectoryRefused: they contradict each other, or lack something; and what `check_features`
    raises, which is given the levels of features that they tell.
    """
    try:
        rebuilt = await read_back(reader, incarnations, accept_loss=accept_loss)
    except CannotRebuild as error:
        raise DataDirectoryRefused(
            catalog.where,
            f"the catalog cannot be rebuilt: {error}",
            "Start the stores that are missing, and repeat it. A catalog that was in the data directory was "
            "set aside there (catalog.sqlite.broken-N)",
        ) from None
    check_features(rebuilt.get(keys.FEATURES))
    await put_unnamed(catalog, rebuilt)
    stores = "the store" if len(incarnations) == 1 else f"{len(incarnations)} stores"
    logger.warning("the catalog was rebuilt from %s: %d entries", stores, len(rebuilt))


async def put_unnamed(catalog: Catalog, entries: Mapping[str, bytes]) -> None:
    """Put entries into a catalog that nobody serves yet. Raises CompareFailed: somebody does."""
    for piece in in_transactions(entries.items()):
        await catalog.transact([UNNAMED], piece)
