"""The ZeroMQ mesh after RFC 46/DAFKA: nodes, stores, towers. It knows Dafka, and nothing of Kafka."""
