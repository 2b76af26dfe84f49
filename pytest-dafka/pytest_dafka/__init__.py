"""A Kafka-compatible server for tests: `pytest_dafka.plugin` has the fixtures."""
