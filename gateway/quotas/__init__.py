"""How much clients may use, as Kafka's quotas say it (KIP-13, KIP-124, KIP-219, KIP-546, KIP-599, KIP-612).

Pure: no sockets, no catalog, and no clock of its own; times are milliseconds that are passed in.
"""
