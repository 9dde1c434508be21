"""What a backend hands over: the response line, a model's thoughts, its own words."""
