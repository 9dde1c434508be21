"""Documents and requests as the tasks make them, without the harness's task machinery."""

from lmms_eval.api.instance import Instance
from PIL import Image

CHOICES = {"Yes": ["yes"], "No": ["no"]}
LETTERS = {letter: [letter] for letter in "ABCD"}


def photograph(name):
    """A photograph that scikit-image ships."""
    import skimage.data

    return Image.fromarray(getattr(skimage.data, name)()).convert("RGB")


def pragmatch_doc(image, caption, **columns):
    return {
        "task": "pragmatch_pml",
        "sample_id": "1p",
        "image_id": "1",
        "condition": "P",
        "cue": None,
        "edit": None,
        "caption": caption,
        "label": 1,
        "modality": "image_text",
        "prompt": "zero_shot",
        "image": image,
        **columns,
    }


def clash_doc(image, caption, **columns):
    return {
        "task": "clash_mc",
        "sample_id": "1",
        "image_id": "1",
        "form": "mc",
        "caption_kind": "conflicting",
        "caption": caption,
        "original_caption": "A cat looks into the camera.",
        "conflicting_caption": "A dog looks into the camera.",
        "question": "What looks into the camera?",
        "image_answer": "a cat",
        "text_answer": "a dog",
        "distractor": "a horse",
        "option_order": "tcid",
        "rotation": None,
        "prompt": "pragclash",
        "image": image,
        **columns,
    }


def run(model, docs, text="Is it sarcastic?\nCaption: {caption}", max_new_tokens=16, **metadata):
    """Answers of a model to documents of one task, through requests of the model's form."""
    task = docs[0].get("task", "other")
    model.task_dict[task] = {"test": docs}
    letters = docs[0].get("form") == "mc"
    metadata = {
        "choices": LETTERS if letters else CHOICES,
        "verdict_position": "first",
        **metadata,
    }
    generation = {"max_new_tokens": max_new_tokens, "do_sample": False, "until": []}

    def visual(doc):
        return [] if doc["modality"] == "text_only" else [doc["image"]]

    def messages(doc):
        content = [] if doc.get("modality") == "text_only" else [{"type": "image", "url": None}]
        words = {"type": "text", "text": text.format(caption=doc.get("caption"))}
        return [{"role": "user", "content": [*content, words]}]

    requests = []
    for doc_id, doc in enumerate(docs):
        ctx = text.format(caption=doc.get("caption"))
        arguments = (
            (ctx, generation, visual, doc_id, task, "test")
            if model.is_simple
            else (ctx, messages, generation, doc_id, task, "test")
        )
        facts = {"task": task, "doc_id": doc_id, "repeats": 1, "split": "test", **metadata}
        requests.append(Instance("generate_until", arguments, 0, facts))
    return model.generate_until(requests)
