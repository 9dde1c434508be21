"use strict";

/* Shows one item at a time and sends each answer to the server. An answer is kept in the tab until
   the server says that it is on disk, and sent again under the same number after a failure or a
   reload: the server counts it once. Text from the data goes in as text, never as markup. */

const RETRY_MS = [500, 1000, 2000, 4000];
const SLOW_MS = 400;
const WAITING = `waiting:${location.pathname}`;
const SHORTCUTS = "single-key shortcuts";

const GUIDE = {
  sarcasm: [
    "Yes: the author means something other than what the words say, given this picture.",
    "No: the words are meant as they stand, or have simply nothing to do with the picture.",
    "Unclear: you cannot tell.",
    "Judge every caption for itself. The same picture comes again with other captions.",
  ],
  reading: [
    "You read the answer, not the picture: what does it say, whether it is right or not?",
    "Yes: it says that the pair is sarcastic. No: it says that it is not.",
    "Says neither: it refuses, says both, or speaks of something else.",
    "A verdict under a condition, in a quotation or about another text is none.",
  ],
  clash: [
    "Accept an item when all of this is true:",
    "the true caption fits the picture, and the changed one is false in exactly one point;",
    "the picture shows plainly which of the two is right;",
    "the question asks about that point and does not hint that something is wrong;",
    "the two answers follow from picture and changed caption, and the third from neither.",
  ],
};

const $ = (id) => document.getElementById(id);
let state = null;
let at = 0;
let busy = false;
let loaded = false;
let broken = false;
let revealed = false;
let retryTimer = 0;

function make(name, text, attributes = {}) {
  const node = document.createElement(name);
  if (text !== undefined) node.textContent = text;
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  return node;
}

function remember(storage, key, value) {
  // Storage may be switched off; then a reload forgets what the server has not confirmed.
  try {
    if (value === null) storage.removeItem(key);
    else storage.setItem(key, value);
  } catch {
    /* nothing to fall back to */
  }
}

function recall(storage, key) {
  try {
    return storage.getItem(key);
  } catch {
    return null;
  }
}

function newRequest() {
  // randomUUID is missing where the page is neither local nor encrypted.
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

const labelText = (value) => state.labels.find((label) => label.value === value).text;
const answered = () => state.items.filter((item) => item.label !== null).length;
const nameOf = (index) => `Item ${index + 1} of ${state.items.length}`;

function say(text) {
  $("status").textContent = text;
}

function trouble(text, retry = null) {
  $("trouble").hidden = text === null;
  // The same words again would be read aloud again.
  if ($("trouble-text").textContent !== (text ?? "")) $("trouble-text").textContent = text ?? "";
  $("retry").hidden = retry === null;
  $("retry").onclick = retry;
}

/* Which item is next. */

function firstOpen(from) {
  const n = state.items.length;
  for (let step = 0; step < n; step += 1) {
    const index = (from + step) % n;
    if (state.items[index].label === null) return index;
  }
  return -1;
}

/* Drawing. */

function caption(text, word) {
  const quote = make("blockquote", undefined, { class: "text", dir: "auto" });
  const start = word ? text.toLowerCase().indexOf(word.toLowerCase()) : -1;
  // Lower case can have another length in some scripts; then nothing is marked.
  if (start < 0 || text.slice(start, start + word.length).toLowerCase() !== word.toLowerCase()) {
    quote.textContent = text;
  } else {
    quote.append(text.slice(0, start));
    quote.append(make("mark", text.slice(start, start + word.length)));
    quote.append(text.slice(start + word.length));
  }
  return quote;
}

function drawShown(shown) {
  const parts = [];
  if (state.task === "clash") {
    parts.push(make("h3", "Changed caption", { class: "part" }));
    parts.push(caption(shown.conflicting_caption, shown.conflicting_word));
    parts.push(make("h3", "True caption", { class: "part" }));
    parts.push(caption(shown.original_caption, shown.original_word));
    const facts = make("dl", undefined, { class: "facts" });
    const rows = [
      ["Change", `${shown.original_word} → ${shown.conflicting_word}`],
      ["Question", shown.question],
      ["By the picture", shown.image_answer],
      ["By the caption", shown.text_answer],
      ["By neither", shown.distractor],
    ];
    for (const [name, value] of rows) {
      facts.append(make("dt", name), make("dd", value, { dir: "auto" }));
    }
    parts.push(facts);
  } else if (state.task === "reading") {
    parts.push(make("h3", "Answer", { class: "part" }));
    parts.push(caption(shown.answer, null));
    parts.push(make("h3", "Question", { class: "part" }));
    parts.push(caption(shown.question, null));
  } else {
    parts.push(make("h3", "Caption", { class: "part" }));
    parts.push(caption(shown.caption, null));
  }
  $("shown").replaceChildren(...parts);
}

function drawProgress() {
  const done = answered();
  const all = state.items.length;
  $("progress-text").textContent = `${done} of ${all} answered`;
  $("progress").max = all;
  $("progress").value = done;
  $("done").hidden = done < all;
  $("done-title").textContent = `All ${all} items are answered`;
  $("done-text").textContent =
    "Everything is saved; you may close the page. Answers can still be changed.";
}

function drawAnswer() {
  const item = state.items[at];
  $("item-state").textContent =
    item.label === null ? "Not answered yet" : `Answered: ${labelText(item.label)}`;
  for (const button of $("labels").children) {
    button.setAttribute("aria-pressed", String(button.dataset.value === item.label));
    button.setAttribute("aria-disabled", String(broken || (busy && !$("trouble").hidden)));
  }
  $("previous").setAttribute("aria-disabled", String(at === 0));
  $("next").setAttribute("aria-disabled", String(at === state.items.length - 1));
  $("open").setAttribute("aria-disabled", String(firstOpen(0) < 0));
}

async function drawPicture(item) {
  const picture = $("picture");
  loaded = false;
  broken = false;
  $("reveal").hidden = !state.hidden || revealed || !item.picture;
  $("frame").hidden = state.hidden && !revealed;
  $("enlarge").hidden = $("frame").hidden;
  if ($("frame").hidden) {
    picture.removeAttribute("src");
    picture.dataset.state = "hidden";
    loaded = true;
    return;
  }
  picture.dataset.state = "loading";
  picture.alt = `Picture of item ${at + 1}`;
  picture.src = `picture/${item.id}`;
  try {
    await picture.decode();
  } catch {
    if (item !== state.items[at]) return;
    broken = true;
    drawAnswer();
    trouble("The picture could not be loaded, so this item cannot be judged now.", () => {
      trouble(null);
      picture.removeAttribute("src");
      show(at, false);
    });
    return;
  }
  if (item !== state.items[at]) return;
  loaded = true;
  picture.dataset.state = "shown";
  const following = state.hidden ? -1 : firstOpen(at + 1);
  if (following >= 0) new Image().src = `picture/${state.items[following].id}`;
}

function show(index, focus = true) {
  at = index;
  revealed = false;
  const item = state.items[at];
  $("item-title").textContent = nameOf(at);
  document.title = `${nameOf(at)} · ${state.title}`;
  drawShown(item.shown);
  $("reason").value = item.reason;
  drawProgress();
  drawPicture(item);
  drawAnswer();
  // Whoever reads on from here, by ear or by Tab, meets the caption next.
  if (focus) $("item-title").focus();
}

/* Talking to the server. */

async function post(path, body) {
  const reply = await fetch(path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
  const answer = await reply.json().catch(() => ({}));
  if (reply.ok) return answer;
  const error = new Error(answer.error ?? `status ${reply.status}`);
  error.final = reply.status < 500;
  throw error;
}

async function send(action, tries = 0) {
  clearTimeout(retryTimer);
  busy = true;
  remember(sessionStorage, WAITING, JSON.stringify(action));
  const slow = setTimeout(() => say("Saving…"), SLOW_MS);
  let result;
  try {
    result = await post(action.path, action.body);
  } catch (error) {
    const again = () => send(action, tries + 1);
    const label = action.path === "api/undo" ? null : labelText(action.body.label);
    const what = label === null ? "The undo is" : `Your answer ${label} is`;
    if (error.final) {
      // Sending it once more would not help, so it must not stand in the way.
      busy = false;
      remember(sessionStorage, WAITING, null);
      drawAnswer();
      trouble(`${what} not saved: ${error.message}.`);
      return;
    }
    const cause = error.message.startsWith("not saved") ? `: ${error.message}` : "";
    trouble(`${what} not saved yet${cause}. Is the server running? Trying again.`, again);
    drawAnswer();
    retryTimer = setTimeout(again, RETRY_MS[Math.min(tries, RETRY_MS.length - 1)]);
    return;
  } finally {
    clearTimeout(slow);
  }
  busy = false;
  remember(sessionStorage, WAITING, null);
  trouble(null);
  settle(action, result);
}

function settle(action, result) {
  const index = state.items.findIndex((item) => item.id === result.id);
  if (index < 0) {
    drawAnswer();
    say(action.path === "api/undo" ? "Nothing to undo." : "Saved.");
    return;
  }
  const item = state.items[index];
  item.label = result.label;
  item.reason = result.reason;
  if (action.path === "api/undo") {
    const now = item.label === null ? "open again" : `${labelText(item.label)} again`;
    show(index);
    say(`Undone: item ${index + 1} is ${now}.`);
    return;
  }
  const saved = `Saved: ${labelText(item.label)} for item ${index + 1}.`;
  const following = firstOpen(index + 1);
  if (following >= 0) {
    show(following);
    say(saved);
  } else {
    show(index, false);
    $("done-title").focus();
    say(saved);
  }
}

/* What people do. */

function vote(value) {
  if (busy) return;
  if (!loaded) {
    say("The picture is not there yet.");
    return;
  }
  const reason = state.reason ? $("reason").value : "";
  const id = state.items[at].id;
  send({ path: "api/vote", body: { request: newRequest(), id, label: value, reason } });
}

function undo() {
  if (!busy) send({ path: "api/undo", body: { request: newRequest() } });
}

function move(step) {
  const index = at + step;
  if (busy) return;
  if (index < 0 || index >= state.items.length) {
    say(step < 0 ? "This is the first item." : "This is the last item.");
    return;
  }
  if ($("retry").hidden === false) trouble(null);
  show(index);
  say("");
}

function moveToOpen() {
  const index = firstOpen(0);
  if (busy) return;
  if (index < 0) say("No item is open.");
  else show(index);
}

function openDialog(id) {
  if (!$(id).open) $(id).showModal();
}

function reveal() {
  if (!state.hidden || !state.items[at].picture) return;
  revealed = !revealed;
  drawPicture(state.items[at]);
}

function enlarge() {
  if (!loaded || $("frame").hidden) return;
  $("large-picture").src = $("picture").src;
  openDialog("large");
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || event.isComposing) return;
  if (document.querySelector("dialog[open]") || !state) return;
  const inText = event.target.closest("textarea, input");
  if (inText) {
    if (event.key === "Escape") $("item-title").focus();
    return;
  }
  if (!$("shortcuts").checked) return;
  const label = state.labels.find((one) => one.key === event.key.toLowerCase());
  const actions = {
    ArrowLeft: () => move(-1),
    ArrowRight: () => move(1),
    o: moveToOpen,
    z: undo,
    e: enlarge,
    "?": () => openDialog("help"),
  };
  if (state.hidden) actions.p = reveal;
  if (state.reason) actions.r = () => $("reason").focus();
  const action = label ? () => vote(label.value) : actions[event.key] ?? actions[event.key.toLowerCase()];
  if (!action) return;
  event.preventDefault();
  action();
}

/* Starting. */

function drawHelp() {
  const [first, ...rest] = GUIDE[state.task];
  const list = make("ul");
  if (state.task === "clash") {
    $("guide").append(make("p", first));
    rest.forEach((line) => list.append(make("li", line)));
  } else {
    GUIDE[state.task].forEach((line) => list.append(make("li", line)));
  }
  $("guide").append(list);
  const keys = state.labels.map((label) => [label.key, label.text]);
  keys.push(["←", "previous item"], ["→", "next item"], ["o", "first open item"]);
  keys.push(["z", "undo the last answer"], ["e", "picture in full size"]);
  if (state.hidden) keys.push(["p", "show or hide the picture"]);
  if (state.reason) keys.push(["r", "write a reason"]);
  keys.push(["?", "this help"]);
  for (const [key, what] of keys) {
    const term = make("dt");
    term.append(make("kbd", key));
    $("keys").append(term, make("dd", what));
  }
}

function build() {
  document.body.dataset.task = state.task;
  $("task-title").textContent = state.title;
  $("who").textContent = `Annotator: ${state.annotator}`;
  $("question").textContent = state.question;
  for (const label of state.labels) {
    const button = make("button", `${label.text} `, {
      type: "button",
      "aria-pressed": "false",
      "aria-keyshortcuts": label.key,
      "data-value": label.value,
    });
    button.append(make("kbd", label.key, { "aria-hidden": "true" }));
    // The second half of a double click would answer the next item.
    button.addEventListener("click", (event) => event.detail < 2 && vote(label.value));
    $("labels").append(button);
  }
  $("reason-row").hidden = !state.reason;
  if (state.reason) $("reason").maxLength = state.reason;
  drawHelp();
  $("previous").addEventListener("click", () => move(-1));
  $("next").addEventListener("click", () => move(1));
  $("open").addEventListener("click", moveToOpen);
  $("undo").addEventListener("click", (event) => event.detail < 2 && undo());
  $("enlarge").addEventListener("click", enlarge);
  $("reveal").addEventListener("click", reveal);
  $("large-close").addEventListener("click", () => $("large").close());
  $("help-open").addEventListener("click", () => openDialog("help"));
  $("help-close").addEventListener("click", () => $("help").close());
  $("shortcuts").checked = recall(localStorage, SHORTCUTS) !== "off";
  $("shortcuts").addEventListener("change", () => {
    remember(localStorage, SHORTCUTS, $("shortcuts").checked ? null : "off");
  });
  document.addEventListener("keydown", onKey);
  window.addEventListener("beforeunload", (event) => busy && event.preventDefault());
}

async function start() {
  try {
    const reply = await fetch("api/state");
    if (!reply.ok) throw new Error(`status ${reply.status}`);
    state = await reply.json();
  } catch {
    trouble("The server does not answer. Start it again, then open the link it shows.", () => {
      trouble(null);
      start();
    });
    return;
  }
  build();
  document.querySelector("main").setAttribute("aria-busy", "false");
  $("item").hidden = false;
  const open = firstOpen(0);
  show(Math.max(open, 0), false);
  const waiting = recall(sessionStorage, WAITING);
  if (waiting) send(JSON.parse(waiting));
}

start();
