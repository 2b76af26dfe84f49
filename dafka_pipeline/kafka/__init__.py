"""What the jobs ask of a Kafka: its topics and offsets, from the driver, and its records, through Spark."""
