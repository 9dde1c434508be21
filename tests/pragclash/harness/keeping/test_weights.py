"""Weights are known by what they are: files by content, ids by commit, servers by their card."""

import json
import os
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from pragclash.harness.keeping import weights
from pragclash.harness.keeping.weights import same_weights, weights_of


@pytest.fixture
def model(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("PRAGCLASH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(bytes(100))
    return folder


def flip(path: Path, times: tuple[int, int] | None = None) -> None:
    """Change one byte and, if wanted, put the file's times back as a copying tool may."""
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    if times is not None:
        os.utime(path, ns=times)


@pytest.mark.parametrize("name", ["pretrained", "model", "peft", "processor", "anything_else"])
@pytest.mark.parametrize("file", ["model.safetensors", "config.json"])
def test_one_byte_of_a_local_folder_is_another_model(model, name, file):
    arguments = f"backend=llava_hf,{name}={model},device=cpu"
    before = weights_of(arguments)
    assert set(before) == {name}
    assert weights_of(arguments) == before
    flip(model / file)
    assert not same_weights(before, weights_of(arguments))
    flip(model / file)
    assert weights_of(arguments) == before, "the same bytes are the same model"


def test_old_files_are_hashed_once_and_again_when_they_change(model, monkeypatch):
    monkeypatch.setattr(weights, "RACY_SECONDS", -1.0)
    path = model / "model.safetensors"
    status = path.stat()
    before = weights_of(f"pretrained={model}")
    kept = json.loads((model.parent / "cache" / "weights.json").read_text())
    assert str(path) in kept
    opened = []
    digest = weights.hashlib.file_digest
    monkeypatch.setattr(
        weights.hashlib, "file_digest", lambda file, kind: opened.append(1) or digest(file, kind)
    )
    assert weights_of(f"pretrained={model}") == before
    assert not opened
    flip(path, (status.st_atime_ns, status.st_mtime_ns))
    assert weights_of(f"pretrained={model}") != before, "size and time of writing are the same"
    assert len(opened) == 1


@pytest.mark.parametrize("content", [b"", b"[]", b"\xff", b'{"a": 1}', b"[" * 100_000])
def test_a_damaged_list_of_hashes_costs_nothing(model, content):
    before = weights_of(f"pretrained={model}")
    path = model.parent / "cache" / "weights.json"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    assert weights_of(f"pretrained={model}") == before


def test_what_training_and_notes_leave_beside_weights_is_no_weight(model):
    before = weights_of(f"peft={model}")
    for name in ("README.md", "train.log", ".git/index", "checkpoint-10/model.safetensors"):
        (model / name).parent.mkdir(exist_ok=True)
        (model / name).write_text("more")
    assert weights_of(f"peft={model}") == before


def test_the_base_of_an_adapter_is_part_of_it(model):
    adapter = model.parent / "adapter"
    adapter.mkdir()
    config = {"base_model_name_or_path": str(model)}
    (adapter / "adapter_config.json").write_text(json.dumps(config))
    before = weights_of(f"peft={adapter}")
    flip(model / "model.safetensors")
    assert weights_of(f"peft={adapter}") != before


def test_words_and_paths_that_are_written_to_are_no_weights(model, monkeypatch):
    monkeypatch.chdir(model.parent)
    (model.parent / "cpu").mkdir()
    assert weights_of(f"device=cpu,log_dir={model},offload_folder={model},x=1,pretrained=a/b") == {}
    assert weights_of(None) == weights_of("") == weights_of("odd") == {}
    assert set(weights_of("pretrained=model")) == {"pretrained"}


def test_a_hub_id_has_the_commit_that_is_there(model):
    refs = model.parent / "hub" / "models--a--b" / "refs"
    refs.mkdir(parents=True)
    (refs / "main").write_text("1" * 40)
    (refs / "v2").write_text("2" * 40 + "\n")
    assert weights_of("pretrained=a/b") == {"pretrained": "commit:" + "1" * 40}
    assert weights_of("pretrained=a/b,revision=v2") == {"pretrained": "commit:" + "2" * 40}
    assert weights_of("pretrained=a/b,revision=../../..") == {}


@pytest.fixture
def server():
    """A server's list of models, and what it was asked with."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            state["keys"].append(self.headers.get("Authorization"))
            body = json.dumps({"data": state["cards"]}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    http = HTTPServer(("127.0.0.1", 0), Handler)
    state = {"url": f"http://127.0.0.1:{http.server_port}/v1", "cards": [], "keys": []}
    threading.Thread(target=http.serve_forever, daemon=True).start()
    yield state
    http.shutdown()
    http.server_close()


def test_a_server_is_known_by_its_models_card(model, server, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    arguments = f"backend=openai,model=m,base_url={server['url']}"
    server["cards"] = [{"id": "other"}, {"id": "m", "root": "/weights/1", "created": 1}]
    before = weights_of(arguments)
    assert list(before) == ["base_url"]
    assert before["base_url"].startswith("card:")
    server["cards"][1] |= {"created": 2, "permission": ["drawn anew"]}
    assert weights_of(arguments) == before
    server["cards"][1]["root"] = "/weights/2"
    assert not same_weights(before, weights_of(arguments))
    assert set(server["keys"]) == {"Bearer k"}
    server["cards"] = "no list"
    assert weights_of(arguments) == {}


def test_a_server_that_is_not_there_has_not_changed(model):
    arguments = "backend=openai,model=m,base_url=http://127.0.0.1:9/v1"
    assert weights_of(arguments) == {}
    assert same_weights({"base_url": "card:1"}, weights_of(arguments))
