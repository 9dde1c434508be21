"""Run folders and files of predictions: read, check, score anew."""
