"""The job that puts an archive's records back into topics.

`selection` says what is asked for, `pinned` what a replay keeps beside the archive, `source` reads the
archive, `rounds` and `merging` put its records in order, `targets` makes and checks topics, `groups` maps
committed offsets, `auditing` compares the result; `job` runs it. The sending itself is
`dafka_pipeline.producing`.
"""
