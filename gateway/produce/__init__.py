"""What a Produce does before it is answered: batches are opened, checked, appended."""
