"""Which version this is, as `pyproject.toml` says, too: who asks an installed distribution for it loads a
megabyte of packages, and one that is not installed has none.
"""

VERSION = "0.1.0.dev0"
