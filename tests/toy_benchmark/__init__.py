"""A third benchmark, as small as can be: one folder and one registration."""
