"""Values become columns: tables beside the archive, made from it and never from Kafka."""
