"""The launcher as users meet it: a process, its lines and its exit status."""

import inspect
import io
import json
import os
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st
from PIL import Image

from lmms_eval_tasks.dataset.folder import write_folder
from postprocess.measure import pragmatch as metrics
from postprocess.measure.groups import Answer
from postprocess.runs.refused import TaskAnswers, faults_of
from pragclash.harness import tasks
from pragclash.harness.answers import answers_of, mend_errors
from pragclash.harness.arguments import UsageError, check_arguments, check_config
from pragclash.harness.cache import benchmarks_of, grouped, take
from pragclash.harness.evaluation import Outcome, _watched

FAILED = "[LMMS_EVAL_REQUEST_FAILED after 3 retries] timeout"

BACKEND = """
import sys
from lmms_eval.api.model import lmms
from lmms_eval.models import MODEL_REGISTRY_V2
from lmms_eval.models.registry_v2 import ModelManifest

class Scripted(lmms):
    '''Answers by a rule of the test: an expression over the document `d` and number `i`.'''

    def __init__(self, rule="'Yes'", **kwargs):
        super().__init__()
        import torch
        self.rule = compile(open(rule).read(), rule, "eval")
        self.device = torch.device("cpu")

    def generate_until(self, requests):
        print(f"asked {len(requests)}", file=sys.stderr)
        answers = []
        for i, request in enumerate(requests):
            _, _, _, doc_id, task, split = request.args
            d = self.task_dict[task][split][doc_id]
            answers.append(eval(self.rule, {"d": d, "i": i}))
        return answers

    def loglikelihood(self, requests):
        raise NotImplementedError

    generate_until_multi_round = loglikelihood

if __name__ == "__main__":
    import types
    module = types.ModuleType("scripted_backend")
    module.Scripted = Scripted
    sys.modules["scripted_backend"] = module
    MODEL_REGISTRY_V2.register_manifest(
        ModelManifest("scripted", simple_class_path="scripted_backend.Scripted")
    )
    import os
    from pragclash.harness import cache
    cache.PORTION = int(os.environ.get("PORTION", cache.PORTION))
    from pragclash.harness.launcher import main
    main()
"""


def png(seed: int) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 255, (8, 8, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    home = tmp_path_factory.mktemp("data")
    rows = [
        {
            "sample_id": f"pic{i}-{condition}",
            "image_id": f"pic{i}",
            "image": f"images/pic{i}.png",
            "condition": condition,
            "cue": None,
            "edit": None,
            "caption": f"caption {condition} of {i}",
            "label": int(condition == "P"),
        }
        for i in range(9)
        for condition in "PML"
    ]
    images = {f"images/pic{i}.png": png(i) for i in range(9)}
    write_folder(home / "pragmatch", "pragmatch", rows, images, {"kind": "custom"})
    return home


@pytest.fixture
def launch(tmp_path, data):
    (tmp_path / "backend.py").write_text(BACKEND)

    def run(*arguments: str, rule: str | None = None, processes: int = 1, **env: str):
        command = [sys.executable]
        if processes > 1:
            command += ["-m", "torch.distributed.run", "--nproc_per_node", str(processes)]
            command += ["--master_port", "29531"]
        if rule is None:
            command += ["-m", "pragclash.harness.launcher"]
        else:
            (tmp_path / "rule").write_text(rule)
            command += [str(tmp_path / "backend.py"), "--model", "scripted"]
            command += ["--model_args", f"rule={tmp_path / 'rule'}"]
        environment = {**os.environ, "PRAGCLASH_DATA": str(data), "OMP_NUM_THREADS": "1", **env}
        return subprocess.run(
            [*command, *arguments],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=environment,
            timeout=240,
        )

    return run


def asked(done: subprocess.CompletedProcess) -> list[int]:
    """How many requests reached the scripted model, call by call."""
    return [int(line.split()[1]) for line in done.stderr.splitlines() if line[:6] == "asked "]


def read_run(folder: Path) -> tuple[dict, dict[str, list[dict]]]:
    (results,) = folder.rglob("*_results.json")
    samples = {}
    for path in folder.rglob("*_samples_*.jsonl"):
        task = path.stem.split("_samples_")[1]
        samples[task] = [json.loads(line) for line in path.read_text().splitlines()]
    return json.loads(results.read_text())["results"], samples


def values_of(results: dict, task: str) -> dict[str, object]:
    values = results[task]
    names = [name.removesuffix(",none") for name in values if name.endswith(",none")]
    return {name: values[f"{name},none"] for name in names if "_stderr" not in name}


FIRST = "__import__('os').environ.get('FIRST')"
ALTERNATING = "'Yes' if d['condition'] == 'P' and int(d['image_id'][3:]) % 2 else 'No'"


def test_metrics_of_the_sample_log_equal_the_printed_ones(launch, tmp_path):
    tasks = "pragmatch_pml,pragmatch_pm_text_only,pragmatch_pm_cot"
    arguments = ("--tasks", tasks, "--limit", "7", "--output_path", "out", "--log_samples")
    done = launch(*arguments, rule=ALTERNATING)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 tasks, 21 documents, 4 pictures, 21 requests" in done.stdout
    results, samples = read_run(tmp_path / "out")
    families = {"pragmatch_pml": "pml", "pragmatch_pm_text_only": "pm", "pragmatch_pm_cot": "pm"}
    assert set(samples) == set(families)
    for task, family in families.items():
        records = [row["accuracy"] for row in samples[task]]
        answers = [Answer.of(record) for record in records]
        printed = values_of(results, task)
        assert set(printed) == set(metrics.metrics_for(family))
        for name, value in printed.items():
            assert value == metrics.figure(name, answers, metrics.slots_for(family)), name
            assert f"|{name}" in done.stdout.replace(" ", ""), f"{name} is not in the table"
        for record in records:
            assert record["image_id"]
            assert record["dataset_kind"] == "custom"
            assert len(record["dataset_fingerprint"]) == 64
            assert record["modality"] == ("text_only" if "text_only" in task else "image_text")
            assert record["correct"] in (0, 1)
    assert values_of(results, "pragmatch_pml")["n_left_out"] == 1


@pytest.mark.slow
def test_two_ranks_give_the_metrics_of_one(launch, tmp_path):
    arguments = ("--tasks", "pragmatch_pml", "--output_path")
    one = launch(*arguments, "one", rule=ALTERNATING)
    two = launch(*arguments, "two", rule=ALTERNATING, processes=2)
    assert one.returncode == two.returncode == 0, two.stdout + two.stderr
    first, second = (read_run(tmp_path / name)[0] for name in ("one", "two"))
    assert values_of(first, "pragmatch_pml") == values_of(second, "pragmatch_pml")
    assert values_of(first, "pragmatch_pml")["n_pairs"] == 9


@pytest.mark.parametrize(
    ("rule", "status", "line"),
    [
        pytest.param(
            "''",
            1,
            "pragmatch_pm: all 18 answers are empty: this is no result",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            repr(FAILED),
            1,
            "pragmatch_pm: all 18 answers are failed: this is no result",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            f"{FAILED!r} if i == 3 else 'No'",
            1,
            "pragmatch_pm: 1 of 18 requests failed",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "1 / 0", 1, "the evaluation failed: ZeroDivisionError", marks=pytest.mark.slow
        ),
    ],
)
def test_a_failed_run_exits_non_zero_with_one_clear_line(launch, rule, status, line):
    done = launch("--tasks", "pragmatch_pm", rule=rule)
    assert done.returncode == status, done.stdout + done.stderr
    assert f"lmms_eval: {line}" in done.stderr.splitlines()[-1]


@pytest.mark.slow
def test_a_single_empty_answer_is_no_failed_run(launch):
    done = launch("--tasks", "pragmatch_pm", rule="'' if i == 3 else 'No'")
    assert done.returncode == 0, done.stderr


def given(**changes: object) -> Namespace:
    defaults = {
        "tasks": "pragmatch_pm",
        "model": "dummy",
        "model_args": "",
        "include_path": None,
        "verbosity": "ERROR",
        "limit": None,
        "offset": 0,
        "repeats": 1,
        "batch_size": 1,
        "max_batch_size": None,
        "num_fewshot": None,
        "gen_kwargs": "",
        "log_samples": False,
        "predict_only": False,
        "output_path": None,
    }
    return Namespace(**{**defaults, **changes})


@pytest.fixture
def manager(monkeypatch, data):
    """The harness's task manager as it is changed where all tasks asked for are ours."""
    from lmms_eval.tasks import TaskManager

    monkeypatch.setattr(tasks, "_named", ["pragmatch_pm"])
    tasks.install(TaskManager)
    monkeypatch.setenv("PRAGCLASH_DATA", str(data))


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"tasks": "no_such_task"}, "unknown task 'no_such_task'"),
        ({"tasks": "pragmatch_mp"}, "did you mean pragmatch_p"),
        ({"tasks": "pragmatch_pm,nope*"}, r"unknown task 'nope\*'"),
        ({"tasks": None}, "name what to run with --tasks"),
        ({"tasks": ",".join(f"pragmatch_{i}" for i in range(400))}, "unknown task"),
        ({"model": "no_such"}, "unknown model 'no_such'"),
        ({"model_args": "foo"}, "write name=value"),
        ({"tasks": "pragmatch_pm,pragmatch_p", "limit": 0.5}, "give a whole number"),
        ({"limit": 0.0}, "asks nothing"),
        ({"limit": float("nan")}, "asks nothing"),
        ({"offset": -3}, "below 0"),
        ({"repeats": 2}, "scored on one greedy answer"),
        ({"batch_size": "abc"}, "--batch_size abc: a number from 1"),
        ({"batch_size": "0"}, "--batch_size 0: a number from 1"),
        ({"batch_size": "auto:0"}, "--batch_size auto:0: a number from 1"),
        ({"max_batch_size": 0}, "--max_batch_size 0 is below 1"),
        ({"limit": 1.5}, "--limit 1.5 is no count"),
        ({"limit": float("inf")}, "--limit inf: leave it out"),
        ({"limit": "many"}, "--limit 'many' is no number"),
        ({"offset": 1000}, "pragmatch_pm has 18 documents, nothing is left"),
        ({"tasks": "pragmatch_p,pragmatch_pm", "offset": 9}, "pragmatch_p has 9 documents"),
        ({"num_fewshot": 3}, "--num_fewshot 3: pragmatch_pm is asked without examples"),
        ({"gen_kwargs": "blah"}, "--gen_kwargs 'blah': write name=value"),
        ({"log_samples": True}, "need --output_path"),
        ({"output_path": "/proc/none"}, "--output_path /proc/none cannot be written"),
        ({"include_path": "/none"}, "--include_path /none is not a folder"),
    ],
)
def test_arguments_that_cannot_be_used_are_one_line(manager, changes, line):
    with pytest.raises(UsageError, match=line):
        check_arguments(given(**changes))


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("tasks: [", "no YAML: while parsing"),
        ("just words", "write `name: value` lines"),
        ("- tasks: clash_mc\n- 3", "write `name: value` lines"),
        ("tasks: [pragmatch_pm]", "tasks must be text"),
        ("", "write `name: value` lines"),
        (b"\xff\xfe\x00", "cannot be read"),
        (None, "cannot be read: No such file"),
    ],
)
def test_a_configuration_that_cannot_be_used_is_one_line(tmp_path, content, line):
    path = tmp_path / "run.yaml"
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UsageError, match=line) as refused:
        check_config(str(path))
    assert "\n" not in str(refused.value)
    assert check_config(None) is None


def test_a_broken_configuration_exits_2_without_a_traceback(launch, tmp_path):
    (tmp_path / "run.yaml").write_text("tasks: [")
    done = launch("--config", "run.yaml")
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stderr.splitlines()[-1].startswith("lmms_eval: --config run.yaml: no YAML")
    assert "Traceback" not in done.stdout + done.stderr


def test_arguments_that_can_be_used_pass(manager, tmp_path):
    check_arguments(given(tasks="pragmatch_p*,pragmatch_m", limit=3.0, output_path=str(tmp_path)))
    check_arguments(given(model_args='a={"x": 1, "y": 2},b=3', batch_size="auto:4", offset=17))
    assert list(tmp_path.iterdir()) == []


def test_without_a_model_the_embedded_one_is_filled_in(manager, capsys):
    args = given(model="hf")
    check_arguments(args)
    assert args.model == "mismatch_detector"
    assert "running the embedded mismatch_detector" in capsys.readouterr().err


def test_without_its_packages_the_default_says_how_to_get_them(manager, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r'pip install "pragclash\[demo\]"'):
        check_arguments(given(model="hf"))


def test_a_user_s_task_of_our_name_is_refused(manager, tmp_path):
    (tmp_path / "t.yaml").write_text("task: pragmatch_pm\ndataset_path: json\n")
    with pytest.raises(UsageError, match="both have pragmatch_pm: rename yours"):
        check_arguments(given(include_path=str(tmp_path)))


def test_a_bundle_drops_what_the_data_cannot_fill(manager):
    args = given(tasks="pragmatch,pragmatch_m_plus_ocr")
    check_arguments(args)
    names = args.tasks.split(",")
    assert "pragmatch_pm" in names
    assert "pragmatch_p_minus_lexical" not in names
    assert names[-1] == "pragmatch_m_plus_ocr", "a task named by itself is never dropped"


@pytest.mark.slow
def test_an_unknown_task_exits_2_without_a_traceback(launch):
    done = launch("--tasks", "no_such_task", "--model", "dummy")
    assert done.returncode == 2, done.stdout + done.stderr
    assert "unknown task 'no_such_task'" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.slow
def test_data_that_is_set_but_missing_exits_2(launch, tmp_path):
    arguments = ("--tasks", "pragmatch_pm", "--model", "dummy")
    done = launch(*arguments, PRAGCLASH_DATA=str(tmp_path / "nowhere"))
    assert done.returncode == 2
    assert "pragclash data pragmatch" in done.stderr.splitlines()[-1]


@pytest.mark.slow
def test_a_corrupt_picture_is_left_out_named_and_counted(launch, data, tmp_path):
    import shutil

    home = tmp_path / "home"
    shutil.copytree(data, home)
    (home / "pragmatch" / "images" / "pic4.png").write_bytes(b"\x89PNG broken")
    arguments = ("--tasks", "pragmatch_pm", "--output_path", "out", "--log_samples")
    done = launch(*arguments, rule=ALTERNATING, PRAGCLASH_DATA=str(home))
    assert done.returncode == 0, done.stderr
    assert "left out picture images/pic4.png" in done.stdout + done.stderr
    results, _ = read_run(tmp_path / "out")
    values = values_of(results, "pragmatch_pm")
    assert (values["n_pairs"], values["n_left_out"]) == (8, 1)


@pytest.mark.slow
def test_cached_answers_for_different_data_never_mix(launch, data, tmp_path):
    import shutil

    arguments = ("--tasks", "pragmatch_pm", "--use_cache", str(tmp_path / "cache"))
    first = launch(*arguments, rule="'No'")
    again = launch(*arguments, rule="'No'")
    assert sum(asked(first)) == 18
    assert not asked(again), "the second run was not served from the cache"
    home = tmp_path / "home"
    shutil.copytree(data, home)
    (home / "pragmatch" / "images" / "pic0.png").write_bytes(png(1000))
    other = launch(*arguments, rule="'No'", PRAGCLASH_DATA=str(home))
    assert sum(asked(other)) == 18, "answers about other pictures came out of the cache"


@pytest.mark.slow
def test_one_byte_of_the_weights_is_asked_anew_a_log_level_and_a_place_are_not(launch, tmp_path):
    """The file of the rule is all that the scripted model loads."""
    arguments = ("--tasks", "pragmatch_pm", "--use_cache", str(tmp_path / "cache"))
    first = launch(*arguments, "--output_path", "one", rule="'No'")
    assert first.returncode == 0, first.stderr
    assert sum(asked(first)) == 18
    more = ("--verbosity", "DEBUG", "--output_path", "two", "--log_samples")
    same = launch(*arguments, *more, rule="'No'")
    assert same.returncode == 0, same.stderr
    assert not asked(same)
    retrained = launch(*arguments, "--output_path", "three", rule="'No' ")
    assert sum(asked(retrained)) == 18
    one, two, three = (
        json.loads(path.read_text())["config"]["pragclash"]["weights"]
        for name in ("one", "two", "three")
        for path in (tmp_path / name).rglob("*_results.json")
    )
    assert one == two != three
    assert one["rule"].startswith("sha256:")
    assert set(one) == {"rule"}
    for path in (tmp_path / "cache").rglob("*.db"):
        path.write_bytes(path.read_bytes()[:5000])
    damaged = launch(*arguments, "--output_path", "three", rule="'No' ")
    assert damaged.returncode == 0, damaged.stderr
    assert "cache.db is damaged" in damaged.stderr + damaged.stdout
    assert (tmp_path / "cache" / "cache.db.damaged-1").is_file()
    assert not asked(damaged), "the log beside the run's database has the answers"


@pytest.mark.slow
def test_failed_requests_are_asked_again_not_replayed_from_the_cache(launch, tmp_path):
    arguments = ("--tasks", "pragmatch_pm", "--use_cache", str(tmp_path / "cache"))
    # The same rule both times: a changed file among the arguments is another model.
    rule = f"{FAILED!r} if i == 3 and {FIRST} else 'No'"
    assert launch(*arguments, rule=rule, FIRST="1").returncode == 1
    again = launch(*arguments, rule=rule)
    assert again.returncode == 0, again.stderr
    assert asked(again) == [1]


@pytest.mark.slow
def test_a_killed_run_goes_on_with_what_it_had(launch, tmp_path):
    arguments = ("--tasks", "pragmatch_pm", "--use_cache", str(tmp_path / "cache"))
    rule = f"__import__('os')._exit(9) if d['image_id'] == 'pic5' and {FIRST} else 'No'"
    assert launch(*arguments, rule=rule, PORTION="4", FIRST="1").returncode == 9
    again = launch(*arguments, rule=rule, PORTION="4")
    assert again.returncode == 0, again.stderr
    assert asked(again) == [4, 4, 2], "pictures 0 to 3 were saved, 4 died with 5"


@hypothesis.given(st.lists(st.sampled_from("abcdef")), st.integers(1, 5))
def test_portions_hold_every_request_once_and_split_no_picture(pictures, size):
    groups, found = grouped(pictures), []
    while groups:
        found.append(take(groups, size))
    assert sorted(i for portion in found for i in portion) == list(range(len(pictures)))
    assert all(len(portion) >= size for portion in found[:-1])
    where = {pictures[i]: n for n, portion in enumerate(found) for i in portion}
    assert all(where[pictures[i]] == n for n, portion in enumerate(found) for i in portion)


@pytest.mark.slow
def test_a_lone_surrogate_does_not_cost_the_sample_log(launch, tmp_path):
    arguments = ("--tasks", "pragmatch_pm", "--output_path", "out", "--log_samples")
    done = launch(*arguments, rule="'No \\ud800' if i == 2 else 'No'")
    assert done.returncode == 0, done.stderr
    _, samples = read_run(tmp_path / "out")
    assert len(samples["pragmatch_pm"]) == 18


@pytest.mark.slow
def test_overlapping_bundles_run_each_leaf_once(launch, tmp_path):
    tasks = "pragmatch_table1,pragmatch_pml,pragmatch_pml_cot"
    done = launch("--tasks", tasks, "--limit", "2", rule="'No'")
    assert done.returncode == 0, done.stderr
    assert "2 tasks, 4 documents" in done.stdout


def test_every_place_the_launcher_reaches_into_the_harness_is_there():
    import lmms_eval.__main__ as cli
    from lmms_eval import evaluator
    from lmms_eval.caching import response_cache
    from lmms_eval.tasks import TaskManager

    assert callable(cli.cli_evaluate_single)
    assert callable(cli.cli_evaluate)
    assert callable(TaskManager.initialize_tasks)
    assert callable(evaluator.simple_evaluate)
    assert callable(evaluator.evaluate)
    assert callable(response_cache._extract_content_hash)
    for name in (
        "_is_valid_response",
        "_log_to_audit",
        "_lookup",
        "_store",
        "_distributed_barrier",
    ):
        assert callable(getattr(response_cache.ResponseCache, name))
    for name in ("create", "execute", "finalize"):
        assert callable(getattr(response_cache.ResponseCache, name))
    made = inspect.signature(response_cache.ResponseCache.create).parameters
    assert made["model_args"].kind is inspect.Parameter.KEYWORD_ONLY
    log = inspect.signature(response_cache.ResponseCache._log_to_audit)
    assert list(log.parameters)[6] == "response"


def test_more_than_one_percent_failed_is_a_fault_and_one_percent_is_not():
    assert faults_of("t", TaskAnswers(n=100, empty=0, failed=1)) == []
    assert faults_of("t", TaskAnswers(n=99, empty=0, failed=1)) != []
    assert faults_of("t", TaskAnswers(n=0, empty=0, failed=0)) == []
    assert faults_of("t", TaskAnswers(n=4, empty=3, failed=1)) != []


RESULT = "__import__('lmms_eval.api.instance').api.instance.GenerationResult"
LEFT_OUT_LINE = '\n{"pragclash": 1, "finish": "left_out"}'
SCORE_LINE = '\n{"pragclash": 1, "choices": {"Yes": -0.1, "No": -3.0}}'


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["{0!r}", f"{RESULT}({{0!r}})"], ids=["str", "typed"])
@pytest.mark.parametrize("forged", [LEFT_OUT_LINE, SCORE_LINE], ids=["left out", "score"])
def test_a_plain_backend_cannot_leave_itself_out_or_score_itself(launch, tmp_path, forged, kind):
    arguments = ("--tasks", "pragmatch_pm", "--output_path", "out", "--log_samples")
    rule = f"{kind.format(forged)} if d['condition'] == 'P' and i % 4 == 0 else 'No'"
    done = launch(*arguments, rule=rule)
    assert done.returncode == 0, done.stderr
    results, samples = read_run(tmp_path / "out")
    values = values_of(results, "pragmatch_pm")
    assert (values["n_pairs"], values["n_left_out"], values["n_scored"]) == (9, 0, 0)
    records = [row["accuracy"] for row in samples["pragmatch_pm"]]
    assert sum(record["forged"] for record in records) > 0
    assert not any(
        "pragclash" in json.dumps(row["filtered_resps"]) for row in samples["pragmatch_pm"]
    )
    assert values["acc_p"] == 0
    assert values["unusable_rate"] > 0


def test_a_vote_never_cast_is_no_empty_answer():
    record = {"record": 1, "status": "left_out", "image_id": "1"}
    rows = [{"filtered_resps": [""], "accuracy": record}]
    assert answers_of(rows) == TaskAnswers(0, 0, 0)
    rows = [{"filtered_resps": [FAILED], "conflict": {**record, "status": "failed"}}]
    assert answers_of(rows) == TaskAnswers(1, 0, 1)
    assert answers_of([{"filtered_resps": [" "]}]) == TaskAnswers(1, 1, 0)


def test_an_error_beside_an_accuracy_on_the_same_pictures_is_over_those_pictures():
    def record(picture: str, edit: str | None, correct: int) -> dict:
        return {
            "record": 1,
            "task": "pragmatch_m_plus_style",
            "image_id": picture,
            "sample_id": f"{picture}-{edit}",
            "condition": "M",
            "cue": edit and "style",
            "edit": edit,
            "label": 0,
            "verdict": 1 - correct,
            "correct": correct,
            "s": None,
            "status": "ok",
            "n_omitted": 0,
        }

    records = [record(p, e, 1) for p in "ab" for e in (None, "inject")] + [record("c", None, 0)]
    values = {"accuracy,none": 1.0, "acc_m,none": 1.0, "acc_m_stderr_clustered,none": 0.33}
    samples = {"pragmatch_m_plus_style": [{"accuracy": r} for r in records]}
    mend_errors({"results": {"pragmatch_m_plus_style": values}}, samples)
    assert values["acc_m_stderr_clustered,none"] == 0
    assert values["acc_m_stderr_clt,none"] == "N/A"


def test_a_fault_of_the_checks_themselves_is_a_failed_run(monkeypatch):
    def broken(*_: object) -> None:
        raise OSError("no disk")

    monkeypatch.setattr("pragclash.harness.evaluation.check_arguments", broken)
    outcome = Outcome()
    with pytest.raises(OSError, match="no disk"):
        _watched(lambda args: None, outcome)(given())
    assert outcome.status == 1


def test_a_key_among_the_model_arguments_is_not_printed(monkeypatch):
    monkeypatch.setattr("pragclash.harness.evaluation.check_arguments", lambda *_: None)
    args = given(model_args="backend=openai,api_key=sk-123")
    seen, _ = _watched(lambda args: (args.model_args, None), Outcome())(args)
    assert seen == "backend=openai,api_key=sk-123"
    assert args.model_args == "backend=openai,api_key=REDACTED"


def test_names_of_other_benchmarks_are_not_ours():
    assert benchmarks_of("clash") == ["clash"]
    assert benchmarks_of("pragmatch_pm") == ["pragmatch"]
    assert benchmarks_of("clashy_mc") == []
