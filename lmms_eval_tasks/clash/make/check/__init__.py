"""Decides which CLASH samples are sound: rules, a language model, and what people accepted."""
