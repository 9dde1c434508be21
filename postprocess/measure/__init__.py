"""Groups, metrics and how sure they are."""
