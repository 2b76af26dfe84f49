"""Native Dafka records in Kafka topics: what native producers publish under a topic's subject, each once."""
