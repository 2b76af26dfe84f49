"""What the administrative APIs share."""
