"""Writes run folders in the harness's layout, so that readers are tested on what it leaves behind.

Names, nesting and row fields follow lmms-eval 0.7.3's evaluation tracker.
"""

import json
from pathlib import Path

from postprocess.benchmarks import of_task

DATE = "20260801_120000"


def write_run(
    folder: Path,
    tasks: dict[str, list[dict]],
    *,
    model: str = "verdict",
    model_args: str = "backend=llava_hf,pretrained=org/tiny-model",
    date: str = DATE,
    limit: float | None = None,
    prompts: dict[str, str] | None = None,
    effective: dict[str, int] | None = None,
    samples: bool = True,
) -> Path:
    """Write one invocation; returns the folder that holds its files.

    Args:
        folder: The `--output_path`.
        tasks: Records by task.
        model: Harness model id.
        model_args: The harness's `--model_args`.
        date: Stamp of the invocation.
        limit: The run's `--limit`.
        prompts: Text sent, by sample id.
        effective: Documents chosen by task, where it differs from the number of records.
        samples: Whether `--log_samples` was set.
    """
    name = next(
        (
            part.partition("=")[2]
            for part in model_args.split(",")
            if part.startswith("pretrained=")
        ),
        "",
    )
    place = folder.joinpath(*name.split("/")[-2:]) if name else folder
    place.mkdir(parents=True, exist_ok=True)
    counts = effective or {}
    results = {
        "results": {task: {"alias": task} for task in tasks},
        "group_subtasks": {task: [] for task in tasks},
        "configs": {
            task: {
                "task": task,
                "metadata": {"version": 1, "prompt": records[0].get("prompt") if records else None},
                "generation_kwargs": {"max_new_tokens": 16, "do_sample": False, "temperature": 0},
            }
            for task, records in tasks.items()
        },
        "versions": dict.fromkeys(tasks, 1),
        "n-samples": {
            task: {
                "original": max(len(records), counts.get(task, 0)),
                "effective": counts.get(task, len(records)),
            }
            for task, records in tasks.items()
        },
        "config": {
            "model": model,
            "model_args": model_args,
            "batch_size": 1,
            "device": "cpu",
            "limit": limit,
            "resolved_cli_args": {
                "model": model,
                "model_args": model_args,
                "tasks": ",".join(tasks),
            },
        },
        "git_hash": "abc1234",
        "lmms_eval_version": "0.7.3",
        "date": date,
        "model_name": name,
        "total_evaluation_time_seconds": "12.5",
    }
    (place / f"{date}_results.json").write_text(json.dumps(results), encoding="utf-8")
    if samples:
        for task, records in tasks.items():
            owned = of_task(task)
            first = owned.first(task) if owned and records else "accuracy"
            with (place / f"{date}_samples_{task}.jsonl").open("a", encoding="utf-8") as stream:
                for number, record in enumerate(records):
                    row = {
                        "doc_id": number,
                        "target": str(record.get("label")),
                        "filtered_resps": [record.get("response")],
                        "token_counts": [None],
                        "doc_hash": "0" * 64,
                        first: record,
                        "yes_rate": [record.get("image_id"), "P", 1],
                        "input": (prompts or {}).get(record["sample_id"], prompt_of(record)),
                    }
                    stream.write(json.dumps(row) + "\n")
    return place


def prompt_of(record: dict) -> str:
    """A prompt in the manner of the tasks', with a caption that names the sample."""
    return f"Is this sarcastic?\nCaption: a caption of {record['sample_id']}\nYes or No?"
