"""A file of somebody else's: whole and as text, or one reason why not."""

import os

import pytest

from lmms_eval_tasks.clash.make.check.votes import read_votes
from lmms_eval_tasks.clash.make.generate.captions import read_captions
from lmms_eval_tasks.dataset.files import UnreadableError, read_bytes, read_text


def test_a_file_is_read_up_to_its_limit_and_without_a_byte_order_mark(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xef\xbb\xbfcaf\xc3\xa9")
    assert read_text(path, 8) == "café"
    assert read_bytes(path, 8) == b"\xef\xbb\xbfcaf\xc3\xa9"
    with pytest.raises(UnreadableError, match=r"a\.txt: is larger than 7 bytes"):
        read_text(path, 7)


@pytest.mark.parametrize("read", [read_captions, read_votes, lambda path: read_text(path, 9)])
def test_what_is_no_readable_file_is_said_with_its_path(tmp_path, read):
    pipe, latin = tmp_path / "pipe", tmp_path / "latin"
    os.mkfifo(pipe)
    latin.write_bytes(b"caf\xe9")
    for path, said in (
        (tmp_path, "is a folder"),
        (pipe, "is no plain file"),
        (tmp_path / "absent", "is missing"),
        (latin / "below", "cannot be read"),
        (latin, "is not UTF-8"),
    ):
        with pytest.raises(ValueError, match=f"{path}: {said}"):
            read(path)
