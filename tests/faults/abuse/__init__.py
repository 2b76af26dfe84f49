"""All attacks that are known, at random, beside a good client that must hardly notice: `make abuse`."""
