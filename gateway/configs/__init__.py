"""Kafka's topic and broker configs: types, defaults, allowed values, documentation, and what they do here."""
