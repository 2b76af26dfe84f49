"""Native Dafka: a producer and a consumer as nodes, for records that are no Kafka topic's."""
