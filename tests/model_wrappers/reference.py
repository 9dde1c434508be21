"""What a wrapped run is compared with: the stock backend, and one full forward pass a request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from model_wrappers.verdict.profiles import Loading
from model_wrappers.verdict.wrapper import VerdictModel
from postprocess.response.line import read_response
from tests.model_wrappers.tiny import BACKEND_ARGS, FakeTasks, TinyModels

TOLERANCE = 1e-4
FP32 = Loading(dtype="float32")
YES = {"yes", "Yes", "YES"}
NO = {"no", "No", "NO"}


def stock(backend: str, folder: Any, *, simple: bool = False, **args: Any) -> Any:
    """The harness's own backend over a tiny model, in float32."""
    from lmms_eval.models import get_model
    from lmms_eval.utils import simple_parse_args_string

    args = {"pretrained": str(folder), **simple_parse_args_string(BACKEND_ARGS[backend]), **args}
    with FP32.applied():
        return get_model(backend, force_simple=simple).create_from_arg_string("", args)


def wrapped(backend: str, folder: Any, *, simple: bool = False, **args: Any) -> VerdictModel:
    """`verdict` over the same."""
    from model_wrappers.verdict.wrapper import VerdictModelSimple

    options = ",".join(f"{name}={value}" for name, value in args.items())
    string = f"backend={backend},pretrained={folder},{BACKEND_ARGS[backend]},load_dtype=float32"
    model = VerdictModelSimple if simple else VerdictModel
    return model.create_from_arg_string(f"{string},{options}" if options else string)


@dataclass
class Pass:
    """One request of the stock backend: what `generate` got, and what it gave."""

    inputs: dict[str, Any]
    generated: list[int]
    text: str


def stock_pass(lm: Any, request: Any) -> Pass:
    """Run one request on a stock backend and watch its `generate`."""
    seen: list[Any] = []
    model = lm.model
    original = model.generate

    def generate(**kwargs: Any) -> Any:
        output = original(**kwargs)
        seen.append((kwargs, output))
        return output

    model.generate = generate
    try:
        (answer,) = lm.generate_until([request])
    finally:
        del model.generate
    ((kwargs, output),) = seen
    inputs = {
        name: value
        for name, value in kwargs.items()
        if isinstance(value, torch.Tensor) and name != "attention_mask"
    }
    generated = output[0, inputs["input_ids"].shape[1] :].tolist()
    return Pass(inputs, generated, getattr(answer, "text", answer))


def text_pass(lm: Any, prompt: str, max_new_tokens: int = 4) -> Pass:
    """The same for a prompt without a picture, built by the processor, not by the backend."""
    names = ("processor", "_processor", "_image_processor")
    processor = next(vars(lm)[name] for name in names if name in vars(lm))
    content: Any = [{"type": "text", "text": prompt}]
    messages = [{"role": "user", "content": content}]
    if type(lm).__module__.endswith("simple.llava_hf"):
        messages = [{"role": "user", "content": prompt}]
        lm.tokenizer.chat_template = lm.tokenizer.chat_template or lm.chat_template
    if type(lm).__module__.endswith("simple.qwen2_5_vl"):
        messages.insert(0, {"role": "system", "content": lm.system_prompt})
    text = (
        lm.tokenizer if "simple.llava" in type(lm).__module__ else processor
    ).apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    inputs = dict(processor(text=[text], return_tensors="pt"))
    inputs.pop("attention_mask")
    output = lm.model.generate(
        **inputs,
        max_new_tokens=max_new_tokens,
        do_sample=False,
        eos_token_id=lm.tokenizer.eos_token_id,
        pad_token_id=lm.tokenizer.pad_token_id,
    )
    generated = output[0, inputs["input_ids"].shape[1] :].tolist()
    return Pass(inputs, generated, lm.tokenizer.decode(generated, skip_special_tokens=True))


@torch.no_grad()
def distributions(lm: Any, run: Pass) -> torch.Tensor:
    """Log-probabilities before each generated token, from one pass over the whole sequence."""
    inputs = dict(run.inputs)
    start = inputs["input_ids"].shape[1]
    inputs["input_ids"] = torch.cat([inputs["input_ids"], torch.tensor([run.generated])], dim=1)
    for module in lm.model.modules():
        if getattr(module, "rope_deltas", None) is not None:
            module.rope_deltas = None
    logits = lm.model(**inputs, use_cache=False).logits[0, start - 1 : -1].double()
    return torch.log_softmax(logits, dim=-1)


def set_logp(tokenizer: Any, row: torch.Tensor, words: set[str]) -> float:
    """Log of the summed probability of all tokens of the vocabulary that spell one of the words."""
    ids = [
        token
        for token in range(len(tokenizer))
        if tokenizer.decode([token]) in words | {f" {word}" for word in words}
    ]
    return float(torch.logsumexp(row[ids], dim=0))


def first_words(tokenizer: Any, generated: list[int]) -> int:
    """The first token that is not white space; the last one where all are."""
    for step, token in enumerate(generated):
        if tokenizer.decode([token], skip_special_tokens=True).strip():
            return step
    return len(generated) - 1


def check_scores(lm: Any, tasks: FakeTasks, requests: list[Any], results: list[Any]) -> None:
    """Every result holds the stock backend's words and the full pass's log-probabilities.

    Raises:
        AssertionError: One does not.
    """
    lm.task_dict = tasks.task_dict
    memory: dict[Any, tuple[Pass, torch.Tensor]] = {}
    for request, result in zip(requests, results, strict=True):
        task, doc_id = request.metadata["task"], request.metadata["doc_id"]
        doc = tasks.task_dict[task]["test"][doc_id]
        key = (id(doc["image"]), doc["prompt"])
        if key not in memory:
            run = (
                text_pass(lm, doc["prompt"])
                if doc["image"] is None
                else stock_pass(lm, tasks.fresh(request))
            )
            memory[key] = run, distributions(lm, run)
        run, rows = memory[key]
        response = read_response(result.text)
        assert response.text == run.text, (task, doc_id)
        step = first_words(lm.tokenizer, run.generated)
        assert response.step == step, (task, doc_id)
        for name, words in (("Yes", YES), ("No", NO)):
            expected = set_logp(lm.tokenizer, rows[step], words)
            assert response.choices is not None
            assert abs(response.choices[name] - expected) < TOLERANCE, (task, doc_id, name)


def run_and_check(
    backend: str, models: TinyModels, tasks: FakeTasks, requests: list[Any], **options: Any
) -> VerdictModel:
    """Run requests through `verdict`, check every one, and hand the model over for its counts."""
    folder = models(backend)
    lm = wrapped(backend, folder, **options)
    lm.task_dict = tasks.task_dict
    results = lm.generate_until(requests)
    check_scores(
        stock(backend, folder, simple=options.get("simple", False)), tasks, requests, results
    )
    return lm
