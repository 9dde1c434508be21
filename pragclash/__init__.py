"""The front door: command line and lmms_eval launcher, nothing else."""
