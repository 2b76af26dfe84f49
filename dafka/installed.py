"""Which version this is."""


def installed_version() -> str | None:
    """The version of the distribution; None when it runs from its sources and is not installed."""
    from importlib import metadata  # takes as long as the rest of a command's imports

    try:
        return metadata.version("dafka-gateway")
    except metadata.PackageNotFoundError:
        return None


def shown_version() -> str:
    """The same for people, who are told if there is none."""
    return installed_version() or "(not installed: running from its sources)"
