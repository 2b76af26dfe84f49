"""The same raw requests to Apache Kafka and to this project, answers decoded and compared field by field."""
