"""What Spark raises in an audit, as one of our failures."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from dafka_pipeline.failures import Refused
from dafka_pipeline.spark.errors import explain_spark, is_sparks, line_around, words_of

_FILE_GONE: Final = re.compile(r"DELTA_FILE_NOT_FOUND|FILE_NOT_EXIST|java\.io\.FileNotFoundException: File")


@contextmanager
def explained() -> Iterator[None]:
    """Turns what Spark raises into a failure that names the cause and the next step.

    Raises Refused when a version is no more whole: VACUUM has removed files that it names, or somebody else
        has.
    """
    try:
        yield
    except Exception as error:
        if not is_sparks(error):
            raise
        words = words_of(error)
        gone = _FILE_GONE.search(words)
        if gone is None:
            raise explain_spark(error) from error
        raise Refused(
            "A file that this version of an archive names is not there: VACUUM has removed what only older "
            "versions name (audit a newer version), or the table is damaged (audit a copy of it). "
            f"({line_around(words, gone.start())})"
        ) from error
