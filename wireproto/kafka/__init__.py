"""Kafka's wire protocol: frames, headers, error codes, requests in, responses out.

Whatever bytes a client sends, decoding either gives a value or raises
:class:`wireproto.kafka.errors.MalformedRequest`; any other exception is a bug in this package.
"""
