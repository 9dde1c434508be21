"""All that follows a model's answer: parse, match, metrics, statistics, tables, report."""
