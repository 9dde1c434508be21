"""PragMatch inside the harness: the list of tasks, their prompts, their documents and values."""

import json
import random
from collections import Counter
from pathlib import Path

import pytest
import yaml
from PIL import Image

import lmms_eval_tasks.pragmatch
from lmms_eval_tasks.dataset.folder import load_folder, write_folder
from lmms_eval_tasks.pragmatch import task as pragmatch
from lmms_eval_tasks.pragmatch.data import has_rows
from lmms_eval_tasks.pragmatch.prompts import PROMPTS, question
from postprocess.benchmarks.pragmatch_tasks import CUES, spec_of, tags_of, task_names
from postprocess.measure import pragmatch as metrics
from postprocess.response.line import attach_response
from tests import TESTS
from tests.lmms_eval_tasks.dataset.test_folder import png

FOLDER = Path(lmms_eval_tasks.pragmatch.__file__).parent
SNAPSHOTS = TESTS / "lmms_eval_tasks" / "snapshots" / "pragmatch_prompts.json"
RESERVED = (
    "_stderr",
    "_consistency_rate",
    "_expected_accuracy",
    "_consensus_accuracy",
    "_internal_variance",
)


def rows_with_cues(n: int) -> list[dict]:
    rows = []
    for i in range(n):
        captions = [("P", None, None), ("M", None, None), ("L", None, None)]
        captions += [("M", cue, "inject") for cue in CUES]
        captions += [("P", cue, "mask") for j, cue in enumerate(CUES) if (i + j) % 2]
        for condition, cue, edit in captions:
            name = "-".join(filter(None, (condition, cue)))
            rows.append(
                {
                    "sample_id": f"pic{i}-{name}",
                    "image_id": f"pic{i}",
                    "image": f"images/pic{i}.png",
                    "condition": condition,
                    "cue": cue,
                    "edit": edit,
                    "caption": f"caption {name} of picture {i}",
                    "label": int(condition == "P"),
                }
            )
    random.Random(3).shuffle(rows)
    return rows


@pytest.fixture(scope="module")
def manager(tmp_path_factory):
    home = tmp_path_factory.mktemp("data")
    images = {f"images/pic{i}.png": png(i) for i in range(7)}
    write_folder(home / "pragmatch", "pragmatch", rows_with_cues(7), images, {"kind": "custom"})
    patch = pytest.MonkeyPatch()
    patch.setenv("PRAGCLASH_DATA", str(home))
    from lmms_eval.tasks import TaskManager

    yield TaskManager("ERROR", include_path=str(FOLDER), include_defaults=False)
    patch.undo()


def load(manager, name: str, form: str = "simple"):
    from lmms_eval.tasks import get_task_dict

    return get_task_dict([name], manager, form)[name]


def test_the_yaml_files_are_the_list_of_tasks():
    files = {path.stem: path for path in FOLDER.glob("pragmatch_*.yaml")}
    assert set(files) == set(task_names())
    assert len(files) == 40
    for name, path in files.items():
        config = yaml.safe_load(path.read_text())
        assert config["task"] == config["dataset_name"] == name
        assert config.get("tag", []) == tags_of(name)


def test_bundles_are_tags_and_never_share_a_task_s_name(manager):
    tags = set(manager.all_tags)
    assert tags == {tag for name in task_names() for tag in tags_of(name)}
    assert not tags & set(task_names())
    assert not manager.all_groups


@pytest.mark.parametrize("name", task_names())
def test_every_task_loads_and_agrees_with_its_name(manager, name):
    task = load(manager, name)
    spec = spec_of(name)
    metadata = task.config.metadata
    assert (metadata["prompt"], metadata["modality"]) == (spec.prompt, spec.modality)
    assert metadata["choices"] == {"Yes": ["yes"], "No": ["no"]}
    cot = spec.prompt == "cot"
    assert metadata["verdict_position"] == ("last_stated" if cot else "first")
    kwargs = task.config.generation_kwargs
    assert kwargs["max_new_tokens"] == (1024 if cot else 16)
    assert kwargs["until"] == []
    assert kwargs["do_sample"] is False
    names = [metric["metric"] for metric in task.config.metric_list]
    assert tuple(names) == metrics.metrics_for(spec.family)
    assert not any(n.startswith("paired_") or n.endswith(RESERVED) for n in names)
    assert (task.config.cluster_key, task.config.score_key) == ("image_id", "correct")


def test_captions_of_one_picture_stand_together_in_the_task_s_order(manager):
    docs = load(manager, "pragmatch_pml").eval_docs_no_media
    ids = docs["image_id"]
    assert [ids[i] for i in range(0, 21, 3)] == list(dict.fromkeys(ids))
    assert docs["condition"] == ["P", "M", "L"] * 7
    assert docs["label"] == [1, 0, 0] * 7


@pytest.mark.parametrize("cue", CUES)
def test_masked_tasks_ask_about_the_pictures_that_have_the_cue(manager, cue):
    docs = load(manager, f"pragmatch_p_minus_{cue}").eval_docs_no_media
    counts = Counter(docs["image_id"])
    masked = {
        row["image_id"] for row in rows_with_cues(7) if (row["cue"], row["edit"]) == (cue, "mask")
    }
    assert set(counts) == masked
    assert set(counts.values()) == {2}
    both = load(manager, f"pragmatch_p_minus_m_plus_{cue}").eval_docs_no_media
    assert set(both["image_id"]) == masked
    assert set(both["edit"]) == {"mask", "inject"}


@pytest.mark.parametrize("name", ["pragmatch_pm", "pragmatch_pm_text_only_cot"])
def test_process_results_returns_exactly_the_metric_list_for_every_document(manager, name):
    task = load(manager, name)
    names = {metric["metric"] for metric in task.config.metric_list}
    for doc in task.eval_docs_no_media:
        for answer in ["Yes", "", None, "maybe", "[LMMS_EVAL_REQUEST_FAILED after 1 retries] x"]:
            values = task.process_results(doc, [answer])
            assert set(values) == names
            record = values["accuracy"]
            assert json.loads(json.dumps(record)) == record
            assert record["correct"] in (0, 1)
            others = [value for key, value in values.items() if key != "accuracy"]
            assert all(
                isinstance(value, list) or set(value) == {"correct", "image_id", "answer"}
                for value in others
            )


@pytest.mark.parametrize("family", metrics.FAMILIES)
def test_order_and_shards_change_no_metric(manager, family):
    name = f"pragmatch_{family}" + (
        "_style" if family in ("p_minus", "m_plus", "p_minus_m_plus") else ""
    )
    task = load(manager, name)
    rng = random.Random(family)
    values = []
    for doc in task.eval_docs_no_media:
        s = rng.choice([-1.5, -0.2, 0.2, 1.1])
        choices = {"Yes": min(0, s) - 1.0, "No": min(0, -s) - 1.0}
        answer = attach_response(rng.choice(["Yes", "No", "Hm"]), choices, step=0)
        values.append(task.process_results(doc, [answer]))
    ranks = values[::2] + values[1::2]
    shuffled = rng.sample(values, len(values))
    for metric, aggregate in task.aggregation().items():
        whole = aggregate([value[metric] for value in values])
        assert whole == aggregate([value[metric] for value in ranks]), metric
        assert whole == aggregate([value[metric] for value in shuffled]), metric


def test_an_odd_limit_leaves_the_half_pair_out_and_counts_it(manager):
    task = load(manager, "pragmatch_pm")
    values = [task.process_results(doc, ["Yes"]) for doc in list(task.eval_docs_no_media)[:7]]
    result = {name: agg([v[name] for v in values]) for name, agg in task.aggregation().items()}
    assert (result["n_pairs"], result["n_left_out"]) == (3, 1)
    assert result["accuracy"] == 0.5


def test_text_only_requests_have_no_picture_and_the_others_have_it_first(manager):
    for name, pictures in (("pragmatch_pm", 1), ("pragmatch_pm_text_only", 0)):
        task = load(manager, name, "chat")
        doc = task.eval_docs[0]
        assert len(task.doc_to_visual(doc)) == pictures
        (turn,) = task.doc_to_messages(doc)
        kinds = [part["type"] for part in turn["content"]]
        assert kinds == ["image"] * pictures + ["text"]


def test_captions_share_everything_up_to_the_caption():
    for prompt in PROMPTS:
        one, other = (question(c, prompt, "image_text") for c in ("aaaa", "zzzz"))
        shared = next(i for i, (a, b) in enumerate(zip(one, other, strict=True)) if a != b)
        assert shared > 0.6 * len(one)


def test_braces_in_a_caption_are_just_text():
    assert "{shown} {0} {" in question("{shown} {0} {", "cot", "text_only")


def test_every_prompt_is_as_in_the_snapshot(manager):
    """Write the file anew by deleting it and running this test; read the difference first."""
    seen = {}
    for name in task_names():
        form = "chat"
        task = load(manager, name, form)
        doc = task.eval_docs[0]
        messages = task.doc_to_messages(doc)
        for turn in messages:
            for part in turn["content"]:
                if isinstance(part.get("url"), Image.Image):
                    part["url"] = "<picture>"
        seen[name] = {"simple": task.doc_to_text(doc), "chat": messages}
    if not SNAPSHOTS.exists():
        SNAPSHOTS.parent.mkdir(exist_ok=True)
        SNAPSHOTS.write_text(json.dumps(seen, indent=1, ensure_ascii=False) + "\n")
        pytest.fail("the snapshot was missing and has been written")
    assert seen == json.loads(SNAPSHOTS.read_text())


def test_data_without_the_captions_of_a_task_ends_the_run(manager, tmp_path, monkeypatch, capsys):
    rows = [row for row in rows_with_cues(2) if row["condition"] != "L"]
    images = {f"images/pic{i}.png": png(i) for i in range(2)}
    write_folder(tmp_path / "pragmatch", "pragmatch", rows, images, {"kind": "custom"})
    monkeypatch.setenv("PRAGCLASH_DATA", str(tmp_path))
    with pytest.raises(SystemExit) as stopped:
        load(manager, "pragmatch_l")
    assert stopped.value.code == 2
    assert "has no captions with condition=L" in capsys.readouterr().err


def test_a_task_has_rows_exactly_where_its_documents_are_not_empty(tmp_path):
    rows = [row for row in rows_with_cues(4) if row["edit"] is None and row["condition"] != "L"]
    images = {f"images/pic{i}.png": png(i) for i in range(4)}
    injected = {**rows[0], "sample_id": "edit", "condition": "M", "cue": "style", "edit": "inject"}
    rows.append({**injected, "label": 0})
    folder = write_folder(tmp_path / "d", "pragmatch", rows, images, {"kind": "custom"})
    has = {name for name in task_names() if has_rows(folder, spec_of(name))}
    families = {spec_of(name).family for name in has}
    assert families == {"p", "m", "pm", "m_plus"}, "without any L no group is complete"
    assert {spec_of(name).cue for name in has} == {None, "style"}
    (folder.path / injected["image"]).unlink()
    left = load_folder(folder.path, "pragmatch")
    assert not has_rows(left, spec_of("pragmatch_m_plus_style"))
    assert has_rows(left, spec_of("pragmatch_pm"))


def test_a_fault_of_scoring_ends_the_run_with_the_sample(manager, monkeypatch, capsys):
    def broken(*_: object) -> dict:
        raise RuntimeError("no")

    monkeypatch.setattr(pragmatch, "pragmatch_record", broken)
    task = load(manager, "pragmatch_p")
    with pytest.raises(SystemExit):
        task.process_results(task.eval_docs_no_media[0], ["Yes"])
    assert "scoring failed on pragmatch_p, sample pic" in capsys.readouterr().err
