"""PragMatch and CLASH tasks for lmms-eval: one folder a benchmark."""
