"""The real ones: Apache Kafka, its Java clients, Spark's connector, and `dafka standalone` as a process.

Everything comes from the package registries by name and is kept in one cache folder, keyed by what was
asked for. Each helper starts processes of its own and ends exactly those, by their id.
"""
