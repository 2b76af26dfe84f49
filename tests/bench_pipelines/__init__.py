"""What the jobs of `dafka-pipeline` cost beside plain Spark, in interleaved rounds of one run."""
