"""The job that compares two sides record by record: archives, topics, or any frame with their columns.

What others call: `sides.Side` (made by `sides.frame_side`, `archive_side.archive_side`,
`kafka_side.kafka_side`), and `job.audit_frames(spark, left, right, options)`, which gives a
`verdict.Verdict`.
"""
