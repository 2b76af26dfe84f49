"""The catalog in etcd: what is sent and what the answers mean (pure), and the shell that sends it."""
