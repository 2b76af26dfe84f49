"""The Dafka wire (ZeroMQ RFC 46/DAFKA as the C nodes speak it) and this project's additions to it."""
