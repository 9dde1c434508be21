"""Whether a row stands in the paper's setting, so that a cell of the paper may stand beside it.

A reference by mistake is worse than none: the cell of one model beside another, or of one adapter
beside any other, reads like a failed reproduction. A cell is shown only where model, data, prompt
and adapter are the paper's; everywhere else the reason why not is shown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from postprocess.runs.folder import Run
from postprocess.runs.identity import own_settings
from postprocess.tables.papers import paper_model

N_PICTURES = 1_281
"""Documents that the paper's CLASH figures are over: one a picture."""

N_ROWS = (1_289, N_PICTURES)
"""Rows that a whole run has: every sample, or in the paper's view one a picture."""

TRAINING_ROWS = {"finetune": 18_097, "finetune-merged": 31_676}
"""Rows of the release's fine-tuning files by split."""

TUNED_ON = {"finetune": "~15k", "finetune-merged": "~30k"}
"""What the paper calls the two files."""


class Setting(NamedTuple):
    """Which row of the paper a row of ours stands for."""

    row: str | None
    """The paper's name of it; None where the paper has no such model."""
    why: str | None = None
    """Why its numbers must not stand beside ours all the same; None where they may."""


class Adapter(NamedTuple):
    """What an adapter was trained on."""

    split: str | None
    """A split of the release; None for other data, or where it is not known."""
    rows: int
    """Rows trained on, with those dropped because their picture is in the test set."""


def adapter_of(training: Mapping[str, Any] | None) -> Adapter:
    """What `training.json` beside an adapter says of its data; unknown without one.

    >>> adapter_of({"data": {"split": "finetune", "rows": 18000, "dropped_in_test_set": 97}})
    Adapter(split='finetune', rows=18097)
    >>> adapter_of(None)
    Adapter(split=None, rows=0)
    """
    data = (training or {}).get("data")
    if not isinstance(data, Mapping):
        return Adapter(None, 0)
    split = data.get("split")
    counts = [data.get(name) for name in ("rows", "dropped_in_test_set")]
    rows = sum(count for count in counts if isinstance(count, int))
    return Adapter(split if split in TRAINING_ROWS else None, rows)


def papers_setting(
    model: str | None,
    *,
    n: int,
    dataset_kind: str | None,
    prompt: str | None,
    adapter: Adapter | None = None,
    released: bool = False,
) -> str | None:
    """Why a row is not in the paper's setting; None where it is.

    Args:
        model: The paper's name of the model, None for any other.
        n: Documents of the row.
        dataset_kind: Kind of the dataset folder; only `full` is the released test set.
        prompt: Whose instruction was used, `official` or `pragclash`.
        adapter: What was put on the model.
        released: Whether the row is one of the files that the authors released: their data and
            prompts are the paper's.

    >>> papers_setting("GPT-5", n=1281, dataset_kind="custom", prompt=None, released=True)
    >>> papers_setting("GPT-5", n=146, dataset_kind="custom", prompt="official")
    "not the paper's setting: not the released test set"
    """
    why = None
    if model is None:
        why = "none of the paper's models"
    elif not released and dataset_kind != "full":
        why = "not the released test set"
    elif not released and prompt != "official":
        why = "not the release's prompt"
    elif n not in N_ROWS:
        why = f"{n} of {N_PICTURES} pictures"
    elif adapter is not None and adapter.split is None:
        why = "its adapter was not trained on a file of the release"
    elif adapter is not None and adapter.rows != TRAINING_ROWS[str(adapter.split)]:
        why = f"its adapter was trained on {adapter.rows} rows of {adapter.split}"
    return None if why is None else f"not the paper's setting: {why}"


def paper_row(model: str, adapter: Adapter | None = None) -> str:
    """The paper's name of a row of the fine-tuning table.

    >>> paper_row("LLaVa-1.5-7b", Adapter("finetune-merged", 31676))
    'LLaVa-1.5-7b, tuned on ~30k'
    """
    if adapter is None:
        return model
    return f"{model}, tuned on {TUNED_ON.get(adapter.split or '', 'other data')}"


_ADAPTER = re.compile(r"lora|adapter|peft", re.IGNORECASE)
_PAPERS_30K = re.compile(r"merged|30k|31k|unfiltered", re.IGNORECASE)


def released_adapter(name: str) -> Adapter | None:
    """The adapter of a released file of predictions, by the file's name; None for a base model.

    >>> released_adapter("llava-v1.5-7b"), released_adapter("llava_lora_open_ended_single")
    (None, Adapter(split='finetune', rows=18097))
    >>> released_adapter("llava_lora_open_ended_single_merged").split
    'finetune-merged'
    >>> released_adapter("llava_lora_mine")
    Adapter(split=None, rows=0)
    """
    if not _ADAPTER.search(name):
        return None
    split = None
    if _PAPERS_30K.search(name):
        split = "finetune-merged"
    elif re.search(r"_lora_open_ended_single(?![^ (])", name, re.IGNORECASE):
        split = "finetune"
    return Adapter(split, TRAINING_ROWS.get(split or "", 0))


def clash_setting(run: Run, tasks: Sequence[str], rescored: str) -> Setting:
    """The paper's row for the answers of a run to tasks of CLASH.

    Args:
        run: The run.
        tasks: Those that the row rests on; the first has its documents.
        rescored: The model id of runs that were made from files of predictions.
    """
    task = run.tasks[tasks[0]]
    model, adapter = paper_model(run.label), _adapter_on(run, task.results, rescored)
    row = None if model is None else paper_row(model, adapter)
    kinds, prompts = (
        " and ".join(map(str, task.values(name))) for name in ("dataset_kind", "prompt")
    )
    n, released = len(task.records), run.model == rescored
    why = papers_setting(
        model, n=n, dataset_kind=kinds, prompt=prompts, adapter=adapter, released=released
    )
    return Setting(row, why or _changed(run, tasks))


def pragmatch_setting(run: Run, tasks: Sequence[str]) -> Setting:
    """The paper's row for the answers of a run to tasks of PragMatch.

    The paper's pictures are not known one by one: a whole run on full data is its setting.
    """
    model = paper_model(run.label)
    why = None
    if any(kind != "full" for name in tasks for kind in run.tasks[name].values("dataset_kind")):
        why = "not the benchmark's data"
    elif any(run.tasks[name].limit is not None for name in tasks):
        why = "only a part of the data (--limit)"
    elif "peft" in run.arguments or released_adapter(run.label) is not None:
        why = "an adapter is on the model"
    return Setting(model, f"not the paper's setting: {why}" if why else _changed(run, tasks))


def _adapter_on(run: Run, results: Mapping[str, Any], rescored: str) -> Adapter | None:
    """The adapter of a run, by what it noted of its training; by its name in released files."""
    if run.model == rescored:
        return released_adapter(run.arguments.get("model_name") or run.label)
    if "peft" not in run.arguments and released_adapter(run.label) is None:
        return None
    noted = results.get("config", {}).get("pragclash", {}).get("adapter") or {}
    return adapter_of(noted.get("training"))


def _changed(run: Run, tasks: Sequence[str]) -> str | None:
    if all(own_settings(record) for name in tasks for record in run.records(name)):
        return None
    return "not the paper's setting: settings or prompt are not the task's own"
