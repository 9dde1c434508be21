"""CLASH's data factory: the release, generators, quality checks."""
