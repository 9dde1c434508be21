"""Counting: how many things are in the picture? Its metrics, record, tables and object."""

from typing import NamedTuple

from postprocess.benchmarks import Benchmark, TableMaker, Unit
from postprocess.measure.metric import LEFT_OUT, Frame, Metric, Rate, by_picture, registry
from postprocess.tables.model import Draft, baselines, columns_of

TASKS = ("counting_things",)

METRICS = registry(
    (
        Metric(
            "exact",
            "exact",
            "Share of pictures whose number is right",
            "documents",
            Rate("right", "n.right"),
            chance=0.1,
            always_no=0.0,
            compared=True,
        ),
        Metric(
            "off_by_one",
            "off by one",
            "Share of answers that are one too many or too few",
            "documents",
            Rate("near", "n.near"),
            kind="rate",
            higher_is_better=False,
            alone=True,
        ),
        Metric(
            "n_left_out",
            "left out",
            "Pictures left out",
            "pictures",
            LEFT_OUT,
            kind="count",
            higher_is_better=False,
        ),
    )
)


class Count(NamedTuple):
    """One answer."""

    sample_id: str
    image_id: str
    wanted: int
    said: int | None

    def to_list(self) -> list:
        return list(self)


def record(shown: dict, answer: str) -> dict:
    words = str(answer).strip()
    said = int(words) if words.isdigit() else None
    return {
        "record": 1,
        **{key: shown[key] for key in ("task", "sample_id", "image_id", "wanted", "prompt")},
        **{key: shown[key] for key in ("dataset_kind", "dataset_fingerprint")},
        "response": words,
        "status": "unusable" if said is None else "ok",
        "outcome": words,
        "correct": int(said == shown["wanted"]),
    }


def answers(items) -> list[Count]:
    def read(item) -> Count:
        if isinstance(item, Count):
            return item
        if isinstance(item, dict):
            said = int(item["response"]) if item["status"] == "ok" else None
            return Count(item["sample_id"], item["image_id"], item["wanted"], said)
        return Count(*item)

    return [read(item) for item in items]


def frame(task: str, found: list[Count]) -> Frame:
    columns = {
        "right": [int(x.said == x.wanted) for x in found],
        "near": [int(x.said is not None and abs(x.said - x.wanted) == 1) for x in found],
    }
    return Frame(*by_picture([x.image_id for x in found], columns))


COLUMNS = columns_of(METRICS, "exact", "off_by_one", "left_out=n_left_out")


def table(build) -> Draft:
    rows = baselines(COLUMNS)
    for run in build.runs:
        cells = build.cells(run, "counting_things", COLUMNS)
        rows.append(build.row(run, (), cells, TASKS))
    return Draft("Counting", ("model",), COLUMNS, tuple(rows))


BENCHMARK = Benchmark(
    name="counting",
    title="Counting",
    package="tests.toy_benchmark",
    task_names=lambda: list(TASKS),
    metrics=METRICS,
    printed=lambda task: tuple(METRICS),
    record=record,
    answers=answers,
    frame=frame,
    units=lambda task, found: {
        x.sample_id: Unit(x.sample_id, {"said": x.said}, (x,)) for x in found
    },
    exports=lambda task: {"exact": "exact"},
    joined=lambda task, record: "exact",
    reference=lambda record: [str(record["wanted"])],
    tables={"counting": TableMaker(table, TASKS)},
)
