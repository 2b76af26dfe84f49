"""Bytes to values and back: Kafka's protocol, Kafka's record batches, Dafka's messages.

Pure functions and state machines. Nothing in this package opens a socket, reads a clock, logs or has
settings.
"""
