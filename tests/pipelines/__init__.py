"""`dafka-pipeline` as its users have it: real Spark, real Delta tables, our server and Apache Kafka."""
