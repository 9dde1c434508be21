"""Models that need no GPU: straw men, baselines, people."""
