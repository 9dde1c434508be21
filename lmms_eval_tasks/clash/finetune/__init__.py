"""Fine-tuning on CLASH: an adapter that names contradictions."""
