"""The page holds what the runs show, shows text as text, and passes nothing on unasked."""

import argparse
import base64
import hashlib
import io
import json
import random
import re
from pathlib import Path

import pytest
from PIL import Image, ImageFile

from postprocess.measure import pragmatch as metrics
from postprocess.measure.estimate import estimates
from postprocess.measure.stats import wilson
from postprocess.publish import report, report_data, report_pairs, thumbnails
from postprocess.publish.report_pairs import Media
from postprocess.publish.report_words import clash as clash_words
from postprocess.publish.report_words import pragmatch as pragmatch_words
from postprocess.runs.folder import read_runs
from postprocess.tables.build import MixedError
from postprocess.tables.model import Options
from pragclash.cli import report as report_command
from tests.postprocess import synthetic
from tests.postprocess.run_folders import write_run

FAST = Options()
HOSTILE = (
    "<script>alert(1)</script>",
    "</style><img src=x onerror=alert(1)>",
    "</script><!--",
    "\ud800 alone",
    "\u2028\x00{{data}}",
    "']]>&amp;",
)


def payload_of(text: str) -> dict:
    (found,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    return json.loads(found)


def answers_in(data: dict) -> list[dict]:
    """Every answer of the pair browser."""
    captions = [c for picture in data["pairs"]["pictures"] for c in picture["captions"]]
    return [answer for caption in captions for _, answer in caption["answers"]]


def built(folder, media=None, **options):
    runs = read_runs([folder])
    return report.build(runs, FAST, media, **options)


def command(*argv):
    parser = argparse.ArgumentParser()
    report_command.add_arguments(parser)
    return report_command.run(parser.parse_args([str(a) for a in argv]))


@pytest.fixture
def folder(tmp_path):
    """Two models on groups, cues, text only and CLASH."""
    for seed, name in enumerate(("alpha", "beta")):
        answer = synthetic.skilled(seed)
        tasks = {
            task: synthetic.pragmatch(task, answer)
            for task in (
                *("pragmatch_pml", "pragmatch_pm", "pragmatch_pml_text_only"),
                *("pragmatch_p_minus_ocr", "pragmatch_m_plus_ocr", "pragmatch_p_minus_m_plus_ocr"),
            )
        }
        tasks["clash_mc"] = synthetic.clash("clash_mc", lambda n: f"({'ABCD'[n % 4]})")
        tasks["clash_open"] = synthetic.clash("clash_open", lambda n: "a kite" if n % 2 else "ball")
        tasks["clash_open_original"] = synthetic.clash("clash_open_original", lambda n: "kite")
        write_run(tmp_path / name, tasks, model=name, model_args="")
    return tmp_path


def hostile_run(tmp_path):
    def answer(number, slot):
        return f"Yes {HOSTILE[number % len(HOSTILE)]}"

    records = synthetic.pragmatch("pragmatch_pml", answer, pictures=len(HOSTILE))
    for record in records:
        # What pragmatch_record would have cleaned must not be needed here.
        record["response"] = HOSTILE[int(record["image_id"]) % len(HOSTILE)]
        record["image_id"] += HOSTILE[3]
    prompts = {
        r["sample_id"]: f"Ask\nCaption: {HOSTILE[0]} {r['sample_id']} {HOSTILE[1]}\nYes?"
        for r in records
    }
    questions = synthetic.clash("clash_open", lambda n: HOSTILE[n % len(HOSTILE)])
    for record in questions:
        record["caption"], record["question"] = HOSTILE[0], HOSTILE[1]
        record["categories"] = [HOSTILE[2]]
    return write_run(
        tmp_path,
        {"pragmatch_pml": records, "clash_open": questions},
        model=f"m{HOSTILE[0]}",
        model_args="",
        prompts=prompts,
    )


def test_hostile_text_stays_text(tmp_path):
    hostile_run(tmp_path)
    text = built(tmp_path)
    text.encode("utf-8")
    assert "<script>alert" not in text
    assert "<img" not in text
    assert text.count("</script>") == 2
    assert text.count("</style>") == 1
    assert text.count("<!--") == 0
    data = payload_of(text)
    assert {answer["w"] for answer in answers_in(data)} == set(HOSTILE)
    assert HOSTILE[0] in data["pairs"]["pictures"][0]["captions"][0]["text"]
    assert data["models"] == [f"m{HOSTILE[0]}"]


def test_the_page_may_run_our_script_alone_and_load_nothing(folder):
    text = built(folder)
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy.startswith("default-src 'none'; img-src data:;")
    for kind, name in (("script", "page.js"), ("style", "page.css")):
        digest = base64.b64encode(hashlib.sha256(report.asset(name).encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
        assert report.asset(name) in text
    assert "unsafe" not in policy
    shell = report.asset("page.html").replace('href="#main"', "") + report.asset("page.css")
    assert not re.search(r"""(src|href)=["']?(?!#)|url\(|@import""", shell)
    addresses = set(re.findall(r"https?://[^\s\"'<)]*", report.asset("page.js")))
    assert addresses == {"http://www.w3.org/2000/svg"}


def test_the_script_never_parses_text_as_markup():
    script = report.asset("page.js")
    ways = ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function(")
    for way in ways:
        assert way not in script
    assert "fetch(" not in script
    assert "XMLHttpRequest" not in script


def test_captions_come_from_the_dataset_folder_or_from_the_prompts(folder):
    (fingerprint,) = {synthetic.FULL}
    media = {fingerprint: Media({"0000-P": "From the folder"}, {})}
    captions = payload_of(built(folder, media))["pairs"]["pictures"][0]["captions"]
    by_id = {caption["id"]: caption["text"] for caption in captions}
    assert by_id["0000-P"] == "From the folder"
    assert by_id["0000-M"] == "a caption of 0000-M"


def test_one_prompt_alone_gives_no_caption_away():
    assert report_pairs.captions_from_prompts({"a": "x\ny"}) == {"a": "x\ny"}
    odd = {"a": "", "b": "\n\n"}
    assert set(report_pairs.captions_from_prompts(odd)) == {"a", "b"}
    many = {"a": "Ask\nCaption: one\ntwo\nYes?", "b": "Ask\nCaption: three\nYes?"}
    assert report_pairs.captions_from_prompts(many) == {"a": "one\ntwo", "b": "three"}


def test_the_same_answer_of_two_tasks_is_shown_once(folder):
    data = payload_of(built(folder))
    names = [c["name"] for c in data["pairs"]["configurations"]]
    assert names == [
        "alpha, zero-shot",
        "alpha, zero-shot, text only",
        "beta, zero-shot",
        "beta, zero-shot, text only",
    ]
    picture = data["pairs"]["pictures"][0]
    assert [c["slot"] for c in picture["captions"]] == ["P", "P-", "M", "M+", "L"]
    assert [number for number, _ in picture["captions"][0]["answers"]] == [0, 1, 2, 3]


def test_without_media_neither_pictures_nor_captions_nor_reasonings_are_passed_on(tmp_path):
    caption = "Secret caption of the donor"
    long = f"I see this: {caption}. So it is meant.\nVerdict: Yes"
    records = synthetic.pragmatch("pragmatch_pml_cot", lambda n, slot: long)
    prompts = {r["sample_id"]: f"Ask\n{caption} {r['sample_id']}\nYes?" for r in records}
    questions = synthetic.clash("clash_open", lambda n: "kite")
    write_run(
        tmp_path,
        {"pragmatch_pml_cot": records, "clash_open": questions},
        model="m",
        model_args="",
        prompts=prompts,
    )
    picture = tmp_path / "x.png"
    Image.new("RGB", (40, 30), "red").save(picture)
    media = {synthetic.FULL: Media({"0000-P": caption}, {"0000": picture})}
    shown = built(tmp_path, media)
    assert caption in shown
    assert "data:image/jpeg" in shown
    hidden = built(tmp_path, media, with_media=False)
    for secret in (caption, "data:image/jpeg", "What flies?", "above a ball"):
        assert secret not in json.dumps(payload_of(hidden))
    assert "0000-P" in hidden
    assert payload_of(hidden)["media"] == {"shown": False, "left_out": 0, "cap": None}


def test_a_vote_that_was_never_cast_is_no_answer(tmp_path):
    records = synthetic.pragmatch("pragmatch_pm", synthetic.always_no, 3)
    records[0].update(status="left_out", verdict=None, correct=0, response="")
    write_run(tmp_path, {"pragmatch_pm": records}, model="human_votes", model_args="annotator=a")
    data = payload_of(built(tmp_path))
    captions = data["pairs"]["pictures"][0]["captions"]
    assert [len(caption["answers"]) for caption in captions] == [0, 1]


def test_figures_are_those_of_the_tables(folder):
    data = payload_of(built(folder))
    answers = metrics.answers_of(read_runs([folder]).runs[0].records("pragmatch_pml"))
    point = data["plane"][0]
    assert point["name"] == "alpha, zero-shot"
    acc_p = metrics.figure("acc_p", answers, metrics.PML)
    assert point["p"][0] == pytest.approx(100 * acc_p, abs=1e-3)
    score = data["scores"][0]
    assert score["task"] == "pragmatch_pml"
    assert sum(score["positive"]) == sum(score["negative"]) == 20
    assert score["roc"][0] == [0, 0]
    assert score["roc"][-1] == [1, 1]
    cues = {(c["name"], c["what"], c["cue"]) for c in data["cues"]}
    assert ("alpha, zero-shot", "masked P less P", "ocr") in cues
    clash = next(c for c in data["clash"] if c["task"] == "clash_mc")
    assert clash["rows"][0]["name"] == "all"
    assert all(sum(row["counts"]) == row["n"] for row in clash["rows"])
    tables = [t["table"] for t in data["tables"]]
    assert tables == [
        *("table1", "table3", "table4", "clash-mc", "clash-open", "clash-categories"),
        "clash-finetune",
    ]


def test_a_baseline_of_two_tables_is_one_point(tmp_path):
    for model in ("caption_format", "other"):
        records = synthetic.pragmatch("pragmatch_pm", synthetic.skilled())
        write_run(tmp_path / model, {"pragmatch_pm": records}, model=model, model_args="")
    names = [point["name"] for point in payload_of(built(tmp_path))["plane"]]
    assert names == ["caption_format, zero-shot", "other, zero-shot"]


def test_provenance_says_how_each_run_was_made_and_what_is_not_known(folder):
    (one, _) = payload_of(built(folder))["provenance"]
    assert one["model"] == "alpha"
    (invocation,) = one["invocations"]
    assert invocation["command"].startswith("lmms_eval --model alpha --tasks pragmatch_pml,")
    facts = dict(map(tuple, invocation["facts"]))
    assert facts["lmms-eval says of itself"] == "0.7.3"
    assert facts["hardware"] == "not recorded in the run folder"
    task = next(t for t in invocation["tasks"] if t["task"] == "pragmatch_pml")
    assert task["data"] == [f"full {synthetic.FULL}"]
    assert task["prompt"] == "Is this sarcastic?\nCaption: …\nYes or No?"
    assert task["wording"] == ["zero-shot, version 1"]


def test_keys_never_reach_a_page(tmp_path):
    records = synthetic.pragmatch("pragmatch_pm", synthetic.always_no)
    write_run(
        tmp_path,
        {"pragmatch_pm": records},
        model="openai",
        model_args="model=gpt-x,api_key=sk-12345,tokenizer=abc,max_new_tokens=16",
    )
    text = built(tmp_path)
    assert "sk-12345" not in text
    assert "api_key=REDACTED,tokenizer=abc,max_new_tokens=16" in text


def test_the_same_runs_give_the_same_bytes(folder):
    assert built(folder) == built(folder)


def test_long_answers_are_cut_in_the_middle_and_the_page_says_so(tmp_path):
    words = "x" * 30_000 + " Verdict: Yes"
    records = synthetic.pragmatch("pragmatch_pm_cot", lambda n, slot: words)
    write_run(tmp_path, {"pragmatch_pm_cot": records}, model="m", model_args="")
    data = payload_of(built(tmp_path))
    answer = data["pairs"]["pictures"][0]["captions"][0]["answers"][0][1]
    assert data["media"]["cap"] == 20_000
    assert len(answer["w"]) < 20_100
    assert answer["w"].endswith("Verdict: Yes")


def test_many_long_answers_share_one_budget(tmp_path, monkeypatch):
    monkeypatch.setattr(report_pairs, "WORD_BUDGET", 30_000)
    records = synthetic.pragmatch("pragmatch_pm_cot", lambda n, slot: "y" * 3000, pictures=30)
    write_run(tmp_path, {"pragmatch_pm_cot": records}, model="m", model_args="")
    data = payload_of(built(tmp_path))
    assert data["media"]["cap"] == 500
    assert sum(len(answer["w"]) for answer in answers_in(data)) <= 31_000


def test_different_data_do_not_share_a_page_unless_told(tmp_path):
    for name, fingerprint in (("a", synthetic.FULL), ("b", synthetic.OTHER)):
        records = synthetic.pragmatch("pragmatch_pm", synthetic.always_no, fingerprint=fingerprint)
        write_run(tmp_path / name, {"pragmatch_pm": records}, model=name, model_args="")
    runs = read_runs([tmp_path])
    with pytest.raises(MixedError):
        report.build(runs, FAST)
    data = payload_of(report.build(runs, FAST._replace(mix=True)))
    # The same image id in two datasets is two pictures.
    assert len(data["pairs"]["pictures"]) == 40


def test_problems_are_shown_and_the_rest_too(folder):
    (path,) = (folder / "alpha").rglob("*_samples_pragmatch_pml.jsonl")
    path.write_text(path.read_text()[:-20])
    data = payload_of(built(folder))
    assert any("cut off" in problem for problem in data["problems"])
    assert len(data["models"]) == 2


def test_the_command_writes_a_page_and_nothing_over_it(folder, tmp_path, capsys):
    out = tmp_path / "deep" / "report.html"
    argv = ("--runs", folder, "--out", out)
    assert command(*argv) == 0
    assert "2 models" in capsys.readouterr().out
    before = out.read_bytes()
    assert command(*argv) == 1
    assert "--force" in capsys.readouterr().err
    assert command(*argv, "--force", "--json") == 0
    assert json.loads(capsys.readouterr().out)["runs"] == ["alpha", "beta"]
    assert out.read_bytes() == before
    assert command("--runs", tmp_path / "nothing", "--out", tmp_path / "x.html") == 2


# ---- pictures ----------------------------------------------------------------------------------


def picture(path: Path, size=(640, 480), mode="RGB", seed=0, **save):
    rng = random.Random(seed)
    small = Image.new("RGB", (16, 12))
    small.putdata([tuple(rng.randrange(256) for _ in range(3)) for _ in range(192)])
    image = small.resize(size, Image.Resampling.BICUBIC).convert(mode)
    image.save(path, **save)
    return path


def decoded(uri):
    assert uri.startswith("data:image/jpeg;base64,")
    return Image.open(io.BytesIO(base64.b64decode(uri.partition(",")[2])))


def test_thumbnails_are_small_upright_and_without_metadata(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # rotated by a quarter
    exif[0x010E] = "where I live"
    path = picture(tmp_path / "a.jpg", exif=exif)
    image = decoded(thumbnails.encode(path, 256))
    assert image.size == (192, 256)
    assert not image.getexif()


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P", "L", "I;16", "CMYK"])
def test_every_kind_of_picture_gets_a_thumbnail(tmp_path, mode):
    path = tmp_path / ("a.tif" if mode in ("CMYK", "I;16") else "a.png")
    picture(path, mode="L" if mode == "I;16" else mode)
    if mode == "I;16":
        Image.new("I;16", (60, 40), 40_000).save(path)
    assert decoded(thumbnails.encode(path, 100)).mode == "RGB"


def test_pictures_that_do_not_decode_or_are_enormous_have_none(tmp_path, monkeypatch):
    (tmp_path / "a.jpg").write_bytes(b"\xff\xd8\xff garbage")
    cut = picture(tmp_path / "b.jpg").read_bytes()
    (tmp_path / "b.jpg").write_bytes(cut[: len(cut) // 2])
    assert thumbnails.encode(tmp_path / "a.jpg", 100) is None
    assert thumbnails.encode(tmp_path / "b.jpg", 100) is None
    assert thumbnails.encode(tmp_path / "absent.jpg", 100) is None
    # The harness sets this for the whole process.
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    assert thumbnails.encode(tmp_path / "b.jpg", 100) is None
    assert ImageFile.LOAD_TRUNCATED_IMAGES is True
    monkeypatch.setattr("postprocess.pictures.MAX_PIXELS", 1000)
    assert thumbnails.encode(picture(tmp_path / "c.png"), 100) is None


def test_thumbnails_shrink_until_they_fit_and_never_exceed_their_budget(tmp_path):
    files = {str(i): picture(tmp_path / f"{i}.png", seed=i) for i in range(6)}
    roomy = thumbnails.make(files, files, 1_000_000)
    assert max(decoded(roomy.uris["0"]).size) == thumbnails.SIZES[0]
    tight = thumbnails.make(files, files, sum(map(len, roomy.uris.values())) // 3)
    assert len(tight.uris) == 6
    assert max(decoded(tight.uris["0"]).size) < thumbnails.SIZES[0]
    tiny = thumbnails.make(files, [*files, "unknown"], len(tight.uris["0"]) + 10)
    assert len(tiny.uris) < 6
    assert tiny.left_out == 7 - len(tiny.uris)
    assert sum(map(len, tiny.uris.values())) <= len(tight.uris["0"]) + 10


# ---- words -------------------------------------------------------------------------------------


def headline(answer, task="pragmatch_pml", kind="full", pictures=40):
    records = synthetic.pragmatch(task, answer, pictures=pictures)
    frame = metrics.frame(metrics.answers_of(records), metrics.PML)
    return pragmatch_words("m", estimates(metrics.METRICS.values(), frame), kind)


def test_a_model_that_spots_mismatch_is_told_from_one_that_understands():
    text = headline(lambda n, slot: "No" if slot == "L" else "Yes")
    assert text.startswith("m: accuracy 50.0, but both captions right for 0% of 40 pictures")
    assert (
        "It takes mismatch for sarcasm: P is right for 100%, the arbitrary mismatch M for 0%"
        in text
    )
    assert "Literal captions it recognises better (100% right)" in text
    understood = headline(lambda n, slot: "Yes" if slot == "P" else "No")
    assert understood == (
        "m: accuracy 100.0, and both captions right for 100% of 40 pictures, all three for 100%."
    )


def test_a_model_that_always_says_no_is_said_to():
    text = headline(synthetic.always_no)
    assert "It says Yes to 0% of the captions" in text
    assert "takes mismatch for sarcasm" not in text


def test_a_good_score_behind_a_bad_threshold_is_named():
    text = headline(lambda n, slot: synthetic.said(-5.0 if slot[0] == "P" else -6.0))
    assert "Its scores rank P above M for 100% of pictures: the threshold is what is off" in text


def test_pairs_are_held_against_independence_only_with_evidence():
    def together(n, slot):
        return "Yes" if (slot == "P") == (n % 2 == 0) else "No"

    assert "more often than if P and M had nothing to do" in headline(together)
    assert "less often than if" in headline(lambda n, slot: "Yes" if n % 2 else "No")
    assert "about as often" in headline(synthetic.skilled(3), pictures=30)


def test_the_sample_and_unread_answers_are_said():
    text = headline(lambda n, slot: "Hm" if n < 4 else "No", kind="sample")
    assert "10% of the answers hold no verdict and count as wrong" in text
    assert text.endswith("These are the sample's pictures: not a benchmark result.")


def test_conflicts_are_never_told_without_false_alarms():
    half, much = wilson(50, 100), wilson(45, 100)
    assert "false alarms are not known" in clash_words("m", half, None, None, "full")
    assert "little more than it would flag anyway" in clash_words("m", half, much, None, "full")


def test_a_report_of_one_lonely_task_works(tmp_path):
    write_run(
        tmp_path,
        {"pragmatch_l": synthetic.pragmatch("pragmatch_l", synthetic.always_no)},
        model="m",
        model_args="",
    )
    data = payload_of(built(tmp_path))
    assert data["tables"] == []
    assert data["headline"] == []
    assert len(data["pairs"]["pictures"]) == 20


@pytest.mark.slow
def test_ten_thousand_records_stay_under_fifteen_megabytes(tmp_path):
    def answer(number, slot):
        rng = random.Random(f"{number}{slot}")
        words = " ".join(rng.choices(("the", "picture", "shows", "a", "rather", "plain"), k=200))
        return f"{words}\nVerdict: {'Yes' if rng.random() < 0.5 else 'No'}"

    tasks = {}
    for task in ("pragmatch_pml_cot", "pragmatch_pml_text_only_cot"):
        tasks[task] = synthetic.pragmatch(task, answer, pictures=1000)
    for cue in ("ocr", "style"):
        task = f"pragmatch_p_minus_m_plus_{cue}_cot"
        tasks[task] = synthetic.pragmatch(task, answer, pictures=1000)
    write_run(tmp_path, tasks, model="m", model_args="")
    pool = [picture(tmp_path / f"{i}.jpg", seed=i, quality=90) for i in range(20)]
    files = {f"{i:04}": pool[i % 20] for i in range(1000)}
    text = built(tmp_path, {synthetic.FULL: Media({}, files)})
    data = payload_of(text)
    assert len(answers_in(data)) == 10_000
    assert len(data["thumbs"]) == 1000
    assert len(text) < report.MAX_BYTES
    assert report_data.PICTURE_BUDGET + report_pairs.WORD_BUDGET < report.MAX_BYTES
