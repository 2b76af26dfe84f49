"""Backups of a whole cluster: taken through a running gateway, kept in a directory or a bucket, restored by
writing (docs/decisions/backup.md).
"""
