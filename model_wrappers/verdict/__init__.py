"""The wrapper `verdict`: scores and shared prefixes on the harness's backends."""
