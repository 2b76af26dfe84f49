"""The Kafka front: Kafka clients in, Dafka's producer and reader operations out. It starts no process."""
