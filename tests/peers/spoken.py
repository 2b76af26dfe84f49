"""What is printed beside what librdkafka prints.

A producer of an earlier test may still say on this process's stderr that its server is gone.
"""

import re
from collections.abc import Iterable

LIBRDKAFKA = re.compile(r"%\d\|\d+\.\d+\|")


def without_librdkafka(lines: Iterable[str]) -> list[str]:
    """The other lines."""
    return [line for line in lines if not LIBRDKAFKA.match(line)]
