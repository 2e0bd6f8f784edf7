"""Many peers in one process."""
