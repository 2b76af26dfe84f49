"""`python -m dafka_pipeline`: the same as `dafka-pipeline`."""

from dafka_pipeline.cli import main

main()
