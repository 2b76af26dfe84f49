"""What a gateway knows of its cluster, and what changes it: topics, stores, their configs."""
