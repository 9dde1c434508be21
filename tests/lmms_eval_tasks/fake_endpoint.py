"""A server with OpenAI's interface on real HTTP, that makes CLASH samples and mischief."""

from __future__ import annotations

import json
import random
import re
import threading
import time
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY = "sk-secret-0123456789"
SWAPS = {
    "dog": "cat", "cat": "dog", "red": "blue", "pizza": "salad", "bus": "train", "two": "three",
}  # fmt: skip
THIRD = {
    "cat": "rabbit", "dog": "rabbit", "blue": "green", "salad": "soup", "train": "tractor",
    "three": "forty",
}  # fmt: skip
PASSING = ("429", "500", "503", "time-out", "hang up", "half a body", "no choices")
MALFORMED = ("half a JSON", "apology", "empty", "list")


class FakeEndpoint:
    """Answers each stage as a function of its data.

    Args:
        seed: Of the faults; None for a healthy server.
        rate: Share of replies that are a fault of the way; half as many are malformed.
        refuse_after: From so many replies on, the key is refused.
    """

    def __init__(
        self, seed: int | None = None, rate: float = 0.35, refuse_after: int | None = None
    ) -> None:
        self.seed, self.rate, self.refuse_after = seed, rate, refuse_after
        self.tries: Counter[str] = Counter()
        self.malformed: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.prompts: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.answered = 0
        self.tokens = 0
        self.verdict = "sound"
        self.refuses: Callable[[str], bool] = lambda prompt: False
        self.active = self.peak = 0
        self.lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                with outer.lock:
                    outer.active += 1
                    outer.peak = max(outer.peak, outer.active)
                    outer.headers.append(dict(self.headers))
                try:
                    outer.answer(self, body)
                finally:
                    with outer.lock:
                        outer.active -= 1

            def log_message(self, *args: Any) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}/v1"
        threading.Thread(target=self.http.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self.http.shutdown()
        self.http.server_close()

    def answer(self, handler: Any, body: dict[str, Any]) -> None:
        prompt = body["messages"][0]["content"]
        asked = prompt.partition("\nAn earlier reply")[0]
        with self.lock:
            self.prompts.append(prompt)
            self.tries[asked] += 1
            fault = self._fault(asked, self.tries[asked])
            self.answered += 1
            refused = self.refuse_after is not None and self.answered > self.refuse_after
            if fault:
                self.faults[fault] += 1
        if refused or self.refuses(asked):
            return self.send(handler, 401, {"error": {"message": f"bad key {KEY}"}})
        if fault in ("429", "500", "503"):
            return self.send(handler, int(fault), {"error": {"message": f"fault, key {KEY}"}})
        if fault == "time-out":
            # Longer than the client waits, as a time-out must be; the reply then goes nowhere.
            time.sleep(0.5)
            return None
        if fault == "hang up":
            handler.close_connection = True
            return None
        if fault == "half a body":
            return self.send(handler, 200, b'{"choices": [{"mess')
        if fault == "no choices":
            return self.send(handler, 200, {"choices": []})
        text = json.dumps(self.reply(asked))
        text = {
            "half a JSON": text[: len(text) // 2],
            "apology": "I am sorry, but as a language model I cannot do that.",
            "empty": "",
            "list": "[1, 2]",
        }.get(fault or "", f"Here you are:\n```json\n{text}\n```")
        with self.lock:
            self.tokens += 100
        usage = {"total_tokens": 100}
        return self.send(
            handler, 200, {"choices": [{"message": {"content": text}}], "usage": usage}
        )

    def _fault(self, asked: str, attempt: int) -> str | None:
        if self.seed is None or attempt > 4:
            return None
        dice = random.Random(f"{self.seed}:{attempt}:{asked}")
        if dice.random() < self.rate:
            return dice.choice(PASSING)
        # Two malformed replies in a row drop a sample, by the rules.
        if dice.random() < self.rate / 2 and not self.malformed[asked]:
            self.malformed[asked] += 1
            return dice.choice(MALFORMED)
        return None

    def reply(self, prompt: str) -> dict[str, Any]:
        data = json.loads(prompt.partition("\nData:\n")[2])
        stage = re.match(r"Task: (\w+)", prompt)[1]  # type: ignore[index]
        if stage == "check":
            names = re.findall(r"^((?:change|answers|question)_\w+):", prompt, re.MULTILINE)
            return {name: self.check(name, data) for name in names}
        if stage == "question":
            return {"question": "Which one can be seen at this place?"}
        if stage == "answers":
            first, second = data["first_word"], data["second_word"]
            return {"image_answer": first, "text_answer": second, "distractor": THIRD[second]}
        caption = data["caption"]
        old = next(word for word in SWAPS if re.search(rf"\b{word}\b", caption))
        new = re.sub(rf"\b{old}\b", SWAPS[old], caption)
        if "UNSOUND" in caption:
            new = new.replace("street", "river")
        kind = "attribute" if old in ("red", "two") else "object"
        return {
            "conflicting_caption": new,
            "original_word": old,
            "conflicting_word": SWAPS[old],
            "change_type": kind,
        }

    def check(self, name: str, data: dict[str, Any]) -> dict[str, str]:
        sound = not re.search(r"synonym|ambiguous", name)
        if name == self.verdict:
            sound = not sound
        return {"verdict": "yes" if sound else "no", "reason": f"because of {name}"}

    @staticmethod
    def send(handler: Any, status: int, body: Any) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        handler.send_response(status)
        handler.send_header("content-type", "application/json")
        handler.send_header("content-length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)
