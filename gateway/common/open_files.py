"""The limit on open files of this process."""

import logging
import sys

logger = logging.getLogger(__name__)


def raise_file_limit() -> int:
    """Raises this process' limit on open files (RLIMIT_NOFILE) to what it may be; the limit then."""
    import resource  # not on Windows

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # macOS says "unlimited" and refuses more than OPEN_MAX, 10240.
    wanted = 10_240 if sys.platform == "darwin" and hard == resource.RLIM_INFINITY else hard
    if soft != wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError) as error:
            logger.warning("the limit on open files stays at %d: %s", soft, error)
            return soft
    return sys.maxsize if wanted == resource.RLIM_INFINITY else wanted
