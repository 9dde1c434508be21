"""Verdict scores, shared prefixes and embedded models on top of harness backends."""
