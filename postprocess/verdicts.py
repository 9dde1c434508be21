"""The stable name of the verdict reader; the rules are in `postprocess.read.verdict`."""

from postprocess.read.verdict import read_verdict

__all__ = ["read_verdict"]
