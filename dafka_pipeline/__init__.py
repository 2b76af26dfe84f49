"""Data pipelines on Spark over any Kafka: archive, compact, replay, audit, transform.

The command is `dafka-pipeline`; docs/pipelines.md is its guide. What decides (which offsets a batch takes,
what a commit says, where a replay goes on) is pure and stands in files without Spark; the jobs around it run
on a driver.
"""
