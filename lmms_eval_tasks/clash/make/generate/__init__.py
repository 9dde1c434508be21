"""Makes CLASH samples out of captions: stages, the two generators, and the job that runs them."""
