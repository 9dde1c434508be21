"""The stable names of CLASH's matching; the rules are in `postprocess.read.matching`."""

from postprocess.read.matching import choice_outcome, open_outcome

__all__ = ["choice_outcome", "open_outcome"]
