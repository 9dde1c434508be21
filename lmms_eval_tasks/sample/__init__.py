"""Captions written for photographs that installed packages ship."""
