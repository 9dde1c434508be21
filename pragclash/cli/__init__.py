"""The commands of `pragclash`: arguments and words, nothing else."""
