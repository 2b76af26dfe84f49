"""`python -m tests.bench`: Apache Kafka and `dafka standalone` in turn, same machine, same clients, same run.

Three rounds by default; each round starts each server anew on an empty directory, at equal durability: with
an fsync before each acknowledgement (`flush.messages=1` against `--fsync always`) and without (Kafka's
default against `--fsync never`). What is printed are the medians and their ratio, as a table for
docs/benchmarks.md.
"""
