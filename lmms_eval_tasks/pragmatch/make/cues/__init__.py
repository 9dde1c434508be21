"""The surface cues of a caption: found, taken out, put in.

*Lexical*: overt markers such as "lol". *Style*: emphasis in the writing. *OCR*: words of the
picture, or in the manner of overlay text. What counts as a cue stands in the lists under
`cue_lists/` and in the rules here; both are ours, not the paper's.
"""

from lmms_eval_tasks.pragmatch.make.cues.edits import detect, inject, mask
from lmms_eval_tasks.pragmatch.make.cues.text import (
    LIST_FILES,
    Span,
    content_words,
    list_versions,
    word_lists,
    words,
)
from postprocess.benchmarks.pragmatch_tasks import CUES

__all__ = [
    "CUES",
    "LIST_FILES",
    "Span",
    "content_words",
    "detect",
    "inject",
    "list_versions",
    "mask",
    "word_lists",
    "words",
]
