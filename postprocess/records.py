"""The stable name of the response line's reader; it lives in `postprocess.response.line`."""

from postprocess.response.line import split_response

__all__ = ["split_response"]
