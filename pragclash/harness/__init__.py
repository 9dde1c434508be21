"""Every place that reaches into lmms-eval."""
