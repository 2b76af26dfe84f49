"""Who did what, and to whom something was denied: lines for auditors."""
