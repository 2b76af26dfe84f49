"""The small strongly consistent state: topics, configs, segments, epochs, stores."""
