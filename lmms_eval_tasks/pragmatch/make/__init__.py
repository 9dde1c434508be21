"""PragMatch's data factory: sources, cues, mismatches, audit."""
