"""Unmodified Kafka clients: contents, order, headers, times and the codec of what is stored compared."""
