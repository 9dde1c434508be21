"""The stand-in for the CLASH release: its counts are the files', and its words have its flags."""

import pytest

from postprocess.runs.prediction_files import read_source
from postprocess.runs.rescoring import score
from tests import clash_release


@pytest.fixture(scope="module")
def stand_in(tmp_path_factory):
    return clash_release.write(tmp_path_factory.mktemp("stand_in"))


def test_the_counts_are_those_of_the_released_files(shared):
    assert clash_release.counts_of(shared / "golden" / "clash") == clash_release.table()


def test_a_stand_in_has_the_counts_of_the_table(stand_in):
    assert clash_release.counts_of(stand_in) == clash_release.table()
    for name, entries in clash_release.table()["files"].items():
        assert sum(entry[-1] for entry in entries) == 1281, name


def test_the_rules_find_in_our_words_what_the_release_found_in_its_own(stand_in):
    files = sorted((stand_in / "predictions").rglob("*.json.gz"))
    assert len(files) == 12
    for path in files:
        (scored,) = score([read_source(path)], draws=2)
        assert [file.check.differences for file in scored.files] == [[]], path.name
        assert len(scored.records) == 1281
