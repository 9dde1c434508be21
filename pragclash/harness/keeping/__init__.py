"""What is kept from one evaluation to the next, and how far it may be believed."""
