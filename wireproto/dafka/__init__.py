"""The Dafka wire (ZeroMQ RFC 46/DAFKA as the C nodes speak it) and this project's additions to it."""

# Registers the additions: whoever imports `decode` gets it with the whole table.
from wireproto.dafka import additions as _additions  # noqa: F401
