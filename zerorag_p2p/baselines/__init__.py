"""Other ways to find documents, to compare with on the same workloads (docs/baselines.md)."""
