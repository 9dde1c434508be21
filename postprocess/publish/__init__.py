"""What leaves the house: report, comparison, submissions."""
