"""Token spellings of answers, on vocabularies of the two common kinds."""

import pytest

from model_wrappers.verdict.answer_tokens import answer_step, choice_ids, single_token_ids


class FakeTokenizer:
    """A vocabulary with a mark for a leading space; `encode` adds that space if told to."""

    def __init__(self, tokens, mark, adds_space):
        self.ids = {token: i for i, token in enumerate(["<unk>", *tokens])}
        self.mark, self.adds_space = mark, adds_space

    def convert_tokens_to_ids(self, token):
        return self.ids.get(token, 0)

    def encode(self, text, add_special_tokens):
        assert add_special_tokens is False
        text = text.replace(" ", self.mark)
        text = self.mark + text.lstrip(self.mark) if self.adds_space else text
        return [self.ids[text]] if text in self.ids else [0, 0]

    def decode(self, ids):
        return "".join(list(self.ids)[i] for i in ids).replace(self.mark, " ")


BYTE_LEVEL = FakeTokenizer(["yes", "Ġyes", "Yes", "ĠYES", "No", "Ġno", "(A", "A", "a"], "Ġ", False)
SENTENCE_PIECE = FakeTokenizer(["▁Yes", "Yes", "▁no", "notice", "▁yesterday"], "▁", True)


def words_of(tokenizer, words):
    return [list(tokenizer.ids)[i] for i in single_token_ids(tokenizer, words)]


def test_all_cases_with_and_without_space_are_found():
    assert words_of(BYTE_LEVEL, ["yes"]) == ["yes", "Ġyes", "Yes", "ĠYES"]


def test_a_token_that_encode_cannot_reach_is_found_in_the_vocabulary():
    assert words_of(SENTENCE_PIECE, ["yes"]) == ["▁Yes", "Yes"]


def test_the_unknown_token_never_spells_an_answer():
    assert single_token_ids(SENTENCE_PIECE, ["maybe"]) == []


def test_a_letter_keeps_its_case_and_may_carry_its_bracket():
    assert words_of(BYTE_LEVEL, ["A"]) == ["(A", "A"]


def test_a_set_without_a_token_is_an_error_that_names_it():
    with pytest.raises(ValueError, match="'B'"):
        choice_ids(BYTE_LEVEL, {"A": ["A"], "B": ["B"]})


def test_one_token_in_two_sets_is_an_error():
    with pytest.raises(ValueError, match="both answer sets"):
        choice_ids(BYTE_LEVEL, {"Yes": ["yes"], "Agree": ["yes"]})


@pytest.mark.parametrize(
    ("texts", "letters", "step"),
    [
        (["Yes"], "", 0),
        (["\n", " ", "No"], "", 2),
        (["**", "No"], "", 0),
        (["**", "(", "B"], "ABCD", 2),
        ([" (A", ")"], "ABCD", 0),
        ([], "ABCD", None),
    ],
)
def test_the_verdict_position_of_a_direct_answer(texts, letters, step):
    assert answer_step(texts, letters) == step
