"""What several rooms of the gateway use."""
