"""The Kafka APIs that the gateway answers, one file per API key.

Each module registers its key and versions with `gateway.common.handlers`; `registry.load_apis()` imports
them all, and ApiVersions is built from what they registered.
"""
