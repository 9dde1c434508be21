"""People judge the data: a local page that collects votes, and what the votes add up to."""
