"""How weights are loaded while a backend is built, and what is said of it afterwards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import PreTrainedModel

from model_wrappers.verdict import profiles
from model_wrappers.verdict.profiles import Loading, apply_adapter, training_of
from model_wrappers.verdict.wrapper import VerdictModel
from postprocess.response.line import read_response
from tests.model_wrappers.reference import wrapped
from tests.model_wrappers.tiny import (
    BACKEND_ARGS,
    BUILDERS,
    FakeTasks,
    TinyModels,
    captions_of,
    picture,
    tiny_models,
)

__all__ = ["tiny_models"]


def load(backend: str, folder: Path, **options: Any) -> VerdictModel:
    more = "".join(f",{name}={value}" for name, value in options.items())
    return VerdictModel.create_from_arg_string(
        f"backend={backend},pretrained={folder},{BACKEND_ARGS[backend]}{more}"
    )


@pytest.mark.parametrize("backend", sorted(BUILDERS))
def test_a100_loads_bfloat16_and_sdpa_into_every_backend(
    backend: str, tiny_models: TinyModels
) -> None:
    original = PreTrainedModel.__dict__["from_pretrained"]
    notes = load(backend, tiny_models(backend), profile="a100").run_notes()
    assert notes["dtype"] == "bfloat16"
    assert notes["attention"] == "sdpa"
    assert notes["quantisation"] is None
    assert notes["profile"] == "a100"
    assert notes["device_map"] == {"": "cpu"}
    assert PreTrainedModel.__dict__["from_pretrained"] is original


@pytest.mark.parametrize("backend", ["qwen2_5_vl", "internvl_hf"])
def test_a_backends_fixed_type_can_be_set(backend: str, tiny_models: TinyModels) -> None:
    folder = tiny_models(backend)
    assert load(backend, folder).run_notes()["dtype"] == "bfloat16"
    assert load(backend, folder, load_dtype="float16").run_notes()["dtype"] == "float16"


def test_auto_is_the_profile_of_this_machine(
    tiny_models: TinyModels, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    notes = load("qwen2_5_vl", tiny_models("qwen2_5_vl"), profile="auto").run_notes()
    assert (notes["profile"], notes["dtype"]) == ("cpu", "float32")


@pytest.mark.parametrize("profile", ["auto", "cpu"])
def test_a_profile_without_a_gpu_puts_a_backend_on_the_cpu(
    profile: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Placed:
        def __init__(self, pretrained: str, device: str = "cuda:0", device_map: str = "") -> None:
            pass

    class Unplaced:
        def __init__(self, pretrained: str, device: str = "cuda:0") -> None:
            pass

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    loading = Loading(profile=profile)
    given = {"pretrained": "x", "device_map": "auto"}
    assert loading.placed(Placed, given) == {
        "pretrained": "x",
        "device": "cpu",
        "device_map": "cpu",
    }
    assert loading.placed(Unplaced, {"pretrained": "x"}) == {"pretrained": "x", "device": "cpu"}
    assert Loading().placed(Placed, given) == given
    assert Loading(profile="a100").placed(Placed, given) == given


def test_t4_asks_for_nf4_in_float16() -> None:
    pytest.importorskip("bitsandbytes")
    changed = Loading(profile="t4")._changed({"torch_dtype": torch.bfloat16, "device_map": "auto"})
    assert "torch_dtype" not in changed
    assert changed["dtype"] is torch.float16
    assert changed["attn_implementation"] == "sdpa"
    assert changed["device_map"] == "auto"
    quantisation = changed["quantization_config"]
    assert quantisation.load_in_4bit
    assert quantisation.bnb_4bit_quant_type == "nf4"
    assert quantisation.bnb_4bit_compute_dtype is torch.float16


@pytest.mark.parametrize("backend", sorted(BUILDERS))
def test_t4_runs_and_says_what_it_is(backend: str, tiny_models: TinyModels) -> None:
    pytest.importorskip("bitsandbytes")
    tasks = FakeTasks({"pm": captions_of([picture(1)], 3)})
    # The 4-bit kernel of a CPU takes blocks of 64 weights.
    lm = load(backend, tiny_models(backend, hidden=128), profile="t4")
    lm.task_dict = tasks.task_dict
    results = lm.generate_until(tasks.requests(simple=lm.is_simple))
    notes = lm.run_notes()
    assert notes["dtype"] == "float16"
    assert notes["quantisation"]["bnb_4bit_quant_type"] == "nf4"
    assert notes["counts"]["failed"] == 0
    assert all(read_response(r.text).choices for r in results)


def test_settings_are_undone_when_building_fails() -> None:
    original = PreTrainedModel.__dict__["from_pretrained"]
    with pytest.raises(Exception, match="nowhere"), Loading(dtype="float16").applied():
        PreTrainedModel.from_pretrained("/nowhere/at/all")
    assert PreTrainedModel.__dict__["from_pretrained"] is original


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"profile": "h100"}, "know auto, cpu, t4, a100"),
        ({"dtype": "int8"}, "know float32"),
    ],
)
def test_unknown_settings_are_named(options: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Loading(**options)


def test_what_is_not_installed_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiles.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"pragclash\[quant\]"):
        Loading(profile="t4")


def test_a_folder_without_an_adapter_is_named(tmp_path: Path) -> None:
    pytest.importorskip("peft")
    with pytest.raises(FileNotFoundError, match=r"adapter_config\.json"):
        Loading(peft=str(tmp_path))
    (tmp_path / "adapter_config.json").write_text("{}", encoding="utf-8")
    # Weights in pickle would be run, not read.
    (tmp_path / "adapter_model.bin").write_bytes(b"x")
    with pytest.raises(FileNotFoundError, match=r"adapter_model\.safetensors"):
        Loading(peft=str(tmp_path))


def make_adapter(folder: Path, model: Any, scale: float) -> Path:
    """A LoRA adapter for a model's query projections, of weights of a given size."""
    import copy

    from peft import LoraConfig, get_peft_model

    torch.manual_seed(5)
    config = LoraConfig(r=2, target_modules=r".*language_model.*q_proj", init_lora_weights=False)
    adapted = get_peft_model(copy.deepcopy(model), config)
    for name, parameter in adapted.named_parameters():
        if "lora_" in name:
            parameter.data.mul_(scale)
    adapted.save_pretrained(folder)
    return folder


@pytest.mark.parametrize("backend", ["llava_hf", "qwen2_5_vl"])
def test_an_adapter_moves_the_scores_and_stands_in_the_notes(
    backend: str, tiny_models: TinyModels, tmp_path: Path
) -> None:
    pytest.importorskip("peft")
    tasks = FakeTasks({"pm": captions_of([picture(1)], 2)})
    plain = wrapped(backend, tiny_models(backend))
    scores = {}
    for name, scale in (("zero", 0.0), ("large", 3.0)):
        folder = make_adapter(tmp_path / name, plain.model, scale)
        data = {"split": "finetune", "rows": 146, "dropped_in_test_set": 3, "fingerprint": name}
        (folder / "training.json").write_text(json.dumps({"data": data, "settings": {}}))
        lm = wrapped(backend, tiny_models(backend), peft=folder)
        lm.task_dict = tasks.task_dict
        results = lm.generate_until(tasks.requests(simple=False))
        scores[name] = [read_response(r.text).choices for r in results]
        notes = lm.run_notes()
        assert notes["adapter"]["folder"] == name
        assert len(notes["adapter"]["sha256"]) == 64
        assert notes["adapter"]["lora_parameters"] > 0
        assert notes["adapter"]["training"] == {"data": data}
        assert notes["paths"]["reused"] == 1
    plain.task_dict = tasks.task_dict
    for at, result in enumerate(plain.generate_until(tasks.requests(simple=False))):
        expected = read_response(result.text).choices
        assert scores["zero"][at] == pytest.approx(expected, abs=1e-5)
        assert scores["large"][at] != pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("text", [None, "", "[]", '{"data": 3}', '{"settings": {}}', "[" * 99_999])
def test_an_adapter_of_unknown_training_has_no_facts(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "training.json").write_text(text)
    assert training_of(tmp_path) is None


def test_an_adapter_of_another_model_is_refused(tiny_models: TinyModels, tmp_path: Path) -> None:
    pytest.importorskip("peft")
    from safetensors.torch import load_file, save_file

    model = wrapped("llava_hf", tiny_models("llava_hf")).model
    folder = make_adapter(tmp_path / "a", model, 1.0)
    weights = load_file(folder / "adapter_model.safetensors")
    renamed = {name.replace("layers.0", "layers.7"): value for name, value in weights.items()}
    save_file(renamed, folder / "adapter_model.safetensors")
    with pytest.raises(ValueError, match="do not fit the model"):
        apply_adapter(model, folder)
