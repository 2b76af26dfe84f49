"""`python -m tests.bench`: Apache Kafka and `dafka standalone` in turn, same machine, same clients, same run.

Three rounds by default. In each of them every figure is measured with one server right after the other, each
anew on an empty directory and warmed, at equal durability: with an fsync before each acknowledgement
(`log.flush.interval.messages=1` against `--fsync always`) and without (Kafka's default against
`--fsync never`). What is printed are medians with their spread, the processor time of server and client for
each GB or request, the ratios of the pairs, and which goals are met, as tables for docs/benchmarks.md.
"""
