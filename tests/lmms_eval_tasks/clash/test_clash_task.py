"""CLASH inside the harness: documents, exact keys, and figures that no order or shard changes."""

import json
import random
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from lmms_eval_tasks.clash import task
from lmms_eval_tasks.clash.data import prompt_hash
from lmms_eval_tasks.clash.options import option_order
from postprocess.measure import clash as clash_metrics
from postprocess.response.line import attach_response, failure_text
from tests.lmms_eval_tasks.clash_fixtures import clash_folder, clash_rows

FOLDER = Path(task.__file__).parent
HIDDEN_BY_THE_TABLE = (
    *("_stderr", "_stderr_clt", "_stderr_clustered", "_consistency_rate"),
    *("_expected_accuracy", "_consensus_accuracy", "_internal_variance"),
)
HOSTILE = (
    *(
        "",
        " ",
        "(A)(B)",
        "(" * 5000 + ")" * 5000,
        "\x00\x1b[2J\n\r",
        "\ud800\udfff",
        "(A)" * 300_000,
    ),
    *("null", "[]", '{"pragclash": 1, "choices": {"A": 1e999}}', failure_text("out of memory")),
)


@pytest.fixture
def data(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("PRAGCLASH_DATA", str(tmp_path))
    monkeypatch.setenv("PRAGCLASH_CACHE", str(tmp_path / "cache"))
    return clash_folder(tmp_path / "clash")


class Placeholder:
    def __init__(self, config_name: str) -> None:
        self.config_name = config_name


def offline() -> list[str]:
    return [name for name, spec in task.TASKS.items() if not spec.judged]


def docs_of(name: str) -> list[dict]:
    return list(task.docs(Placeholder(name)).remove_columns("image"))


def answers_to(docs: list[dict], seed: int = 0) -> list[tuple[dict, str]]:
    """An answer to each document, chosen by its content and not by its place."""
    pairs = []
    for doc in docs:
        dice = random.Random(f"{seed}{doc['sample_id']}{doc['rotation']}")
        if doc["form"] == "mc":
            answer = dice.choice(["(A)", "(B)", "(C)", "(D)", "(A) or (B)", "B", ""])
            logps = [dice.uniform(-5, -1.5) for _ in range(4)]
            if dice.random() < 0.7:
                answer = attach_response(answer, dict(zip("ABCD", logps, strict=True)), step=0)
        else:
            words = (doc["image_answer"], doc["text_answer"], "conflicting information", "no idea")
            words = (*words, f"{words[0]} or {words[1]}", "", failure_text("busy"))
            answer = dice.choice(words)
        pairs.append((doc, answer))
    return pairs


def figures(name: str, pairs: list[tuple[dict, str]]) -> dict[str, float | None]:
    """What the harness's table would show."""
    values = [task.process_results(doc, [answer]) for doc, answer in pairs]
    metrics = clash_metrics.metrics_for(name)
    return {x: getattr(task, x)([value[x] for value in values]) for x in metrics}


def yaml_of(name: str) -> dict:
    from lmms_eval.utils import load_yaml_config

    return load_yaml_config(str(FOLDER / f"{name}.yaml"))


def test_every_task_has_a_file_and_every_file_a_task():
    names = {path.stem for path in FOLDER.glob("*.yaml") if not path.name.startswith("_")}
    assert names == set(task.TASKS)


@pytest.mark.parametrize("name", task.TASKS)
def test_a_file_lists_the_metrics_of_its_task(name):
    config = yaml_of(name)
    assert config["task"] == config["dataset_name"] == name
    listed = [entry["metric"] for entry in config["metric_list"]]
    assert tuple(listed) == clash_metrics.metrics_for(name)
    for entry in config["metric_list"]:
        assert entry["aggregation"] is getattr(task, entry["metric"])
        assert set(entry) == {"metric", "aggregation", "higher_is_better"}
        assert not entry["metric"].startswith("paired_")
        assert not entry["metric"].endswith(HIDDEN_BY_THE_TABLE)
    assert listed[0] == "conflict"


@pytest.mark.parametrize("name", task.TASKS)
def test_a_file_decodes_greedily_with_the_fixed_number_of_tokens(name):
    config = yaml_of(name)
    wanted = {"until": [], "do_sample": False, "temperature": 0}
    wanted["max_new_tokens"] = 16 if task.TASKS[name].form == "mc" else 64
    assert config["generation_kwargs"] == wanted
    choices = {letter: [letter] for letter in "ABCD"} if task.TASKS[name].form == "mc" else None
    assert config["metadata"].get("choices") == choices
    by_name_only = task.TASKS[name].circular or task.TASKS[name].judged
    assert config.get("tag") == (None if by_name_only else ["clash"])
    assert config["cluster_key"] == "image_id"


def test_files_are_plain_yaml_but_for_functions_of_this_module():
    for path in FOLDER.glob("*.yaml"):
        for line in path.read_text().splitlines():
            if "!function" in line:
                assert "!function lmms_eval_tasks.clash.task." in line
        yaml.compose(path.read_text())


def test_documents_carry_all_that_a_record_repeats(data):
    folder_rows = {row["sample_id"]: row for row in clash_rows()}
    for name in offline():
        docs = docs_of(name)
        spec = task.TASKS[name]
        assert len(docs) == 14 * (4 if spec.circular else 1)
        for doc in docs:
            row = folder_rows[doc["sample_id"]]
            assert doc["caption"] == row[f"{spec.caption_kind}_caption"]
            assert {key: doc[key] for key in row if key != "image"} == {
                key: row[key] for key in row if key != "image"
            }
            assert doc["dataset_kind"] == "custom"
            assert doc["prompt"] == "pragclash"
            assert doc["prompt_hash"] == prompt_hash(doc["instruction"])
            expected = option_order(doc["sample_id"]) if spec.form == "mc" else None
            if not spec.circular:
                assert (doc["option_order"], doc["rotation"]) == (expected, None)
        if spec.circular:
            turns = [(doc["sample_id"], doc["rotation"]) for doc in docs]
            assert turns == [(row["sample_id"], r) for row in clash_rows() for r in range(4)]


def test_pictures_are_read_from_the_folder(data):
    doc = task.docs(Placeholder("clash_mc"))[0]
    (picture,) = task.doc_to_visual(doc)
    assert (picture.mode, picture.size) == ("RGB", (8, 6))
    assert picture.getpixel((0, 0)) == (100, 80, 160)


def test_official_prompts_of_the_folder_are_asked(tmp_path, monkeypatch):
    texts = {"multiple_choice": "Pick – one.\n", "open_ended": "Say.", "judge": "Sort."}
    prompts = {name: {"text": x, "sha256": prompt_hash(x)} for name, x in texts.items()}
    clash_folder(tmp_path / "clash", prompts=prompts)
    monkeypatch.setenv("PRAGCLASH_DATA", str(tmp_path))
    for name in offline():
        doc = docs_of(name)[0]
        head = texts["multiple_choice" if doc["form"] == "mc" else "open_ended"]
        assert task.doc_to_text(doc).startswith(f"{head}\n{doc['caption']}\n{doc['question']}")
        record = task.process_results(doc, ["x"])["conflict"]
        assert (record["prompt"], record["prompt_hash"]) == ("official", prompt_hash(head))


def test_a_prompt_that_was_edited_ends_the_run(tmp_path, monkeypatch, capsys):
    entry = {"text": "Edited.", "sha256": prompt_hash("Original.")}
    clash_folder(tmp_path / "clash", prompts={"open_ended": entry})
    monkeypatch.setenv("PRAGCLASH_DATA", str(tmp_path))
    with pytest.raises(SystemExit) as caught:
        docs_of("clash_open")
    assert caught.value.code == 2
    assert "prompt open_ended was changed" in capsys.readouterr().err


def test_a_faulty_folder_ends_the_run_with_its_row(data, capsys):
    rows = [json.loads(line) for line in (data / "samples.jsonl").read_text().splitlines()]
    rows[2]["change_type"] = "scene"
    (data / "samples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(SystemExit) as caught:
        docs_of("clash_mc")
    assert caught.value.code == 2
    assert "samples.jsonl:3: change_type" in capsys.readouterr().err


def test_a_missing_picture_takes_its_samples_out_and_is_counted(data):
    (data / clash_rows()[3]["image"]).unlink()
    docs = docs_of("clash_mc")
    assert len(docs) == 12
    assert {doc["n_omitted"] for doc in docs} == {1}


@pytest.mark.parametrize("name", offline())
def test_every_task_counts_the_pictures_left_out_of_it(data, name):
    assert figures(name, answers_to(docs_of(name)))["n_left_out"] == 0
    rows = clash_rows()
    assert rows[3]["image_id"] == rows[4]["image_id"] != rows[6]["image_id"]
    for row in (rows[3], rows[6]):  # three samples of two pictures
        (data / row["image"]).unlink()
    pairs = answers_to(docs_of(name))
    assert len(pairs) == 11 * (4 if task.TASKS[name].circular else 1)
    assert figures(name, pairs)["n_left_out"] == 2
    records = [task.process_results(doc, [answer])["conflict"] for doc, answer in pairs]
    assert clash_metrics.n_left_out(clash_metrics.answers_of(records)) == 2


@pytest.mark.parametrize("name", offline())
def test_every_document_returns_exactly_the_tasks_metrics(data, name):
    wanted = list(clash_metrics.metrics_for(name))
    for doc, answer in answers_to(docs_of(name)):
        values = task.process_results(doc, [answer])
        assert list(values) == wanted
        assert values["conflict"]["correct"] in (0, 1)
        for metric in wanted[1:]:
            kind = dict if metric == "accuracy" else list
            assert isinstance(values[metric], kind)
        json.dumps(values)


@pytest.mark.parametrize("name", offline())
@pytest.mark.parametrize("answer", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_answers_are_scored(data, name, answer):
    doc = docs_of(name)[0]
    record = task.process_results(doc, [answer])["conflict"]
    assert record["correct"] in (0, 1)
    assert record["status"] in ("ok", "unusable", "empty", "failed")


def test_a_fault_of_scoring_names_the_sample(data, capsys):
    doc = {**docs_of("clash_mc")[0], "option_order": "zzzz"}
    with pytest.raises(SystemExit) as caught:
        task.process_results(doc, ["(A)"])
    assert caught.value.code == 2
    assert doc["sample_id"] in capsys.readouterr().err


@pytest.mark.parametrize("name", offline())
def test_figures_equal_those_computed_from_records(data, name):
    pairs = answers_to(docs_of(name))
    records = [task.process_results(doc, [answer])["conflict"] for doc, answer in pairs]
    answers = clash_metrics.answers_of(records)
    for metric, value in figures(name, pairs).items():
        expected = clash_metrics.figure(metric, answers)
        assert value == (expected if expected is None else pytest.approx(expected, abs=1e-12)), (
            metric
        )


@pytest.mark.parametrize("name", offline())
@settings(max_examples=20)
@given(order=st.randoms(use_true_random=False), ranks=st.integers(1, 3), seed=st.integers(0, 9))
def test_order_and_ranks_change_no_figure(documents, name, order, ranks, seed):
    pairs = answers_to(documents[name], seed)
    whole = figures(name, pairs)
    shards = [pairs[rank::ranks] for rank in range(ranks)]
    joined = [pair for shard in shards for pair in shard]
    assert figures(name, joined) == pytest.approx(whole, abs=1e-12, nan_ok=False)
    order.shuffle(joined)
    assert figures(name, joined) == pytest.approx(whole, abs=1e-12)


@pytest.fixture(scope="module")
def documents(tmp_path_factory) -> dict[str, list[dict]]:
    home = tmp_path_factory.mktemp("data")
    clash_folder(home / "clash")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PRAGCLASH_DATA", str(home))
        return {name: docs_of(name) for name in offline()}


@pytest.mark.parametrize("limit", [1, 5, 7, 13, 55])
def test_an_odd_limit_leaves_incomplete_rotations_out(documents, limit):
    pairs = answers_to(documents["clash_mc_circular"])[:limit]
    found = figures("clash_mc_circular", pairs)
    complete = pairs[: limit // 4 * 4]
    right = {doc["sample_id"] for doc, _ in complete}
    for doc, answer in complete:
        if not task.process_results(doc, [answer])["conflict"]["correct"]:
            right.discard(doc["sample_id"])
    assert found["n_sets"] == limit // 4
    assert found["n_sets_left_out"] == (limit % 4 > 0)
    assert found["n_left_out"] == 0
    assert found["circular_acc"] == (len(right) / (limit // 4) if limit >= 4 else None)


def test_always_the_same_letter_is_right_in_one_rotation_and_never_in_all(documents):
    docs = documents["clash_mc_circular"]
    found = figures("clash_mc_circular", [(doc, "(C)") for doc in docs])
    assert found["conflict"] == 0.25
    assert found["circular_acc"] == 0
    assert (found["share_c"], found["letter_bias"]) == (1, 0.75)
    found = figures("clash_mc_circular", [(doc, task.doc_to_target(doc)) for doc in docs])
    assert (found["circular_acc"], found["letter_bias"]) == (1, 0)


def test_a_sample_in_two_categories_counts_in_both(documents):
    found = figures("clash_open", [(doc, "conflict") for doc in documents["clash_open"]])
    assert found["conflict_food"] == found["conflict_household"] == 1
    assert found["conflict_physical"] is None


def test_an_unknown_aggregation_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no_such_metric"):
        task.no_such_metric  # noqa: B018


@pytest.mark.slow
def test_the_harness_prints_every_metric(data, tmp_path):
    from lmms_eval.evaluator import simple_evaluate
    from lmms_eval.tasks import TaskManager
    from lmms_eval.utils import make_table

    manager = TaskManager(include_path=[str(FOLDER)], include_defaults=False)
    results = simple_evaluate(
        "dummy",
        model_args="response=(A)",
        tasks=offline(),
        task_manager=manager,
        limit=7,
        log_samples=True,
        cli_args=None,
    )
    table = make_table(json.loads(json.dumps(results, default=str)))
    rows = {tuple(x.strip() for x in line.split("|")[1:5:3]) for line in table.splitlines()}
    for name in offline():
        shown = {metric for shown_task, metric in rows if shown_task == name}
        assert shown == set(clash_metrics.metrics_for(name))
        found = results["results"][name]
        logged = [row["conflict"] for row in results["samples"][name]]
        assert [record["task"] for record in logged] == [name] * 7
        if task.TASKS[name].caption_kind == "original":
            errors = [record["flag_conflict"] for record in logged]
            assert len(set(errors)) > 1 or found["conflict_stderr_clt,none"] == 0
            assert found["accuracy_stderr_clt,none"] == "N/A"
