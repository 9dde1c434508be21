"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const main = document.getElementById("main");
  const SVG = "http://www.w3.org/2000/svg";

  // Every text in this page goes through a text node: nothing from the data is ever parsed as HTML.
  const fill = (node, attributes, children) => {
    for (const [key, value] of Object.entries(attributes || {})) {
      if (value === null || value === undefined || value === false) continue;
      if (key === "on") for (const [event, f] of Object.entries(value)) node.addEventListener(event, f);
      else node.setAttribute(key, value === true ? "" : String(value));
    }
    for (const child of children.flat(Infinity)) {
      if (child === null || child === undefined || child === false) continue;
      node.append(child instanceof Node ? child : document.createTextNode(String(child)));
    }
    return node;
  };
  const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
  const s = (tag, attributes, ...children) =>
    fill(document.createElementNS(SVG, tag), attributes, children);
  const known = (x) => x !== null && x !== undefined;
  const fixed = (x, digits = 1) => (known(x) ? x.toFixed(digits) : "n/a");
  const signed = (x, digits = 1) => (known(x) ? (x > 0 ? "+" : "") + x.toFixed(digits) : "n/a");
  const range = (t, f = fixed) => (known(t[1]) ? `[${f(t[1])}, ${f(t[2])}]` : "");
  const colour = (i) => i % 8;
  const plural = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;

  const contents = document.getElementById("contents");
  const section = (id, title, ...children) => {
    contents.append(h("li", null, h("a", { href: `#${id}` }, title)));
    const part = h("section", { id, "aria-labelledby": `${id}-title` },
      h("h2", { id: `${id}-title` }, title), ...children);
    main.append(part);
    return part;
  };

  // ---- figures -------------------------------------------------------------------------------
  const whisker = (cell, unit, reference) => {
    const points = unit === "points";
    const [from, to] = points ? [-100, 100] : [0, 100];
    const x = (value) => 3 + (94 * (Math.min(to, Math.max(from, value)) - from)) / (to - from);
    const parts = [s("line", { class: "rail", x1: 3, x2: 97, y1: 6, y2: 6 })];
    if (points) parts.push(s("line", { class: "zero", x1: x(0), x2: x(0), y1: 1, y2: 11 }));
    if (known(cell.low)) {
      parts.push(s("line", { class: "bar", x1: x(cell.low), x2: x(cell.high), y1: 6, y2: 6 }));
    }
    // A line without length is a dot that keeps its shape however the drawing is stretched.
    if (known(cell.value)) parts.push(s("path", { class: "dot", d: `M${x(cell.value)} 6h0` }));
    if (reference) {
      const at = x((reference.low + reference.high) / 2);
      parts.push(s("path", { class: "ref", d: `M${at} 1.5L${at + 3} 6L${at} 10.5L${at - 3} 6Z` }));
    }
    return s("svg", {
      class: "whisker", viewBox: "0 0 100 12", preserveAspectRatio: "none", "aria-hidden": "true",
    }, parts);
  };

  const cellOf = (table, row, column) => {
    const cell = row.cells[column.key];
    if (!cell) return h("td", null, row.kind === "model" ? "" : "—");
    const unit = row.kind === "difference" && column.unit === "percent" ? "points" : column.unit;
    const parts = [];
    if (known(cell.value)) {
      const text = unit === "count" ? String(Math.round(cell.value))
        : unit === "number" ? cell.value.toFixed(2)
        : unit === "points" ? signed(cell.value, table.digits) : fixed(cell.value, table.digits);
      parts.push(h("span", { class: "figure" }, text));
      if (known(cell.low)) {
        const f = unit === "points" ? signed : fixed;
        parts.push(h("span", { class: "range" },
          `${f(cell.low, table.digits)} to ${f(cell.high, table.digits)}`));
      }
      if (known(cell.p_value)) {
        parts.push(h("span", { class: "range" }, `p ${cell.at_most ? "≤ " : ""}${cell.p_value.toPrecision(2)}`
          + (known(cell.holm) ? `, Holm ${cell.holm.toPrecision(2)}` : "")));
      }
      if (cell.n_is_another) parts.push(h("span", { class: "range" }, `n ${cell.n}`));
      if (row.too_few && known(cell.low)) parts.push(h("span", { class: "range" }, "too few pictures"));
    } else if (cell.command) {
      parts.push(h("span", { class: "soft" }, `not run (${table.missing.indexOf(cell.command) + 1})`));
    } else if (row.kind === "model") {
      parts.push(h("span", { class: "soft" }, "n/a"));
    }
    if (unit !== "count" && unit !== "number" && row.kind !== "baseline"
        && (known(cell.value) || cell.reference)) {
      parts.push(whisker(cell, unit, cell.reference));
    }
    if (cell.reference) {
      parts.push(h("span", { class: "paper", title: cell.reference.remark || null },
        `paper ${cell.reference.text}`));
    }
    return h("td", null, parts.length ? parts : "—");
  };

  const drawTable = (table) => {
    const heads = table.heads.map((title) => h("th", { scope: "col" }, title));
    const columns = table.columns.map((column) => h("th", { scope: "col" }, column.title));
    const rows = table.rows.map((row) => h("tr", { class: row.kind },
      row.head.map((text, i) => {
        const shown = i === 0 && row.marks ? `${text} [${[...row.marks].join(", ")}]` : text;
        return i === 0 ? h("th", { scope: "row" }, shown,
          row.kind === "paper" ? h("span", { class: "range" }, "the paper's") : null)
          : h("td", null, shown);
      }),
      table.columns.map((column) => cellOf(table, row, column))));
    return h("div", { class: "tablepart" },
      h("div", { class: "wide", role: "region", tabindex: "0", "aria-label": table.title },
        h("table", { id: `table-${table.table}` }, h("caption", null, table.title),
          h("thead", null, h("tr", null, heads, columns)), h("tbody", null, rows))),
      h("ul", { class: "notes" }, table.notes.map((note) => h("li", null, note)),
        table.missing.map((command, i) => h("li", null, `(${i + 1}) not run: `, h("code", null, command)))));
  };

  const plane = () => {
    const [left, top, size] = [44, 14, 300];
    const x = (v) => left + (size * v) / 100;
    const y = (v) => top + size - (size * v) / 100;
    const parts = [];
    for (const tick of [0, 25, 50, 75, 100]) {
      parts.push(
        s("line", { class: "gridline", x1: x(tick), x2: x(tick), y1: y(0), y2: y(100) }),
        s("line", { class: "gridline", x1: x(0), x2: x(100), y1: y(tick), y2: y(tick) }),
        s("text", { x: x(tick), y: y(0) + 15, "text-anchor": "middle" }, tick),
        s("text", { x: x(0) - 6, y: y(tick) + 4, "text-anchor": "end" }, tick));
    }
    parts.push(s("line", { class: "dash", x1: x(0), y1: y(100), x2: x(100), y2: y(0) }),
      s("text", { x: x(50), y: y(0) + 30, "text-anchor": "middle", class: "strong" },
        "P right (sarcastic caption), %"),
      s("text", { x: 0, y: 0, "text-anchor": "middle", class: "strong",
        transform: `translate(11 ${y(50)}) rotate(-90)` }, "M right (mismatched caption), %"));
    const corners = [[0, 100, "always No", "start", 9, 14], [100, 0, "always Yes", "end", -9, -8],
      [50, 50, "chance", "start", 9, 4], [100, 100, "both right", "end", -9, 14]];
    for (const [p, m, name, anchor, dx, dy] of corners) {
      parts.push(s("rect", { class: "corner", x: x(p) - 4, y: y(m) - 4, width: 8, height: 8 }),
        s("text", { x: x(p) + dx, y: y(m) + dy, "text-anchor": anchor }, name));
    }
    data.plane.forEach((point, i) => {
      const [p, m] = [point.p, point.m];
      const c = colour(i);
      if (known(p[1])) parts.push(s("line", { class: `line s${c}`, x1: x(p[1]), x2: x(p[2]), y1: y(m[0]), y2: y(m[0]) }));
      if (known(m[1])) parts.push(s("line", { class: `line s${c}`, x1: x(p[0]), x2: x(p[0]), y1: y(m[1]), y2: y(m[2]) }));
      parts.push(shape(i, x(p[0]), y(m[0]), 6));
    });
    const drawing = s("svg", { viewBox: `0 0 ${left + size + 14} ${top + size + 40}`, role: "img",
      "aria-label": "Accuracy on P against accuracy on M. " + data.plane.map((point) =>
        `${point.name}: P ${fixed(point.p[0])}, M ${fixed(point.m[0])}`).join("; ") }, parts);
    const key = h("ul", { class: "key column" }, data.plane.map((point, i) => h("li", null,
      s("svg", { viewBox: "0 0 14 14", "aria-hidden": "true" }, shape(i, 7, 7, 6)),
      `${point.name}: P ${fixed(point.p[0])} ${range(point.p)}, M ${fixed(point.m[0])} ${range(point.m)}`,
      point.pair ? `; both right ${fixed(point.pair[0])} ${range(point.pair)}` : "")));
    return h("div", { class: "plane" }, h("div", { class: "card" }, drawing), h("div", null, key,
      h("p", { class: "soft small" }, "On the dashed line accuracy is 50, whatever the balance of Yes "
        + "and No. Only the upper right corner is understanding.")));
  };

  const shape = (i, x, y, r) => {
    const attributes = { class: `f${colour(i)}` };
    const kind = i % 4;
    if (kind === 0) return s("circle", { ...attributes, cx: x, cy: y, r });
    if (kind === 1) return s("rect", { ...attributes, x: x - r + 1, y: y - r + 1, width: 2 * r - 2, height: 2 * r - 2 });
    if (kind === 2) return s("path", { ...attributes, d: `M${x} ${y - r}L${x + r} ${y + r - 1}L${x - r} ${y + r - 1}Z` });
    return s("path", { ...attributes, d: `M${x} ${y - r}L${x + r} ${y}L${x} ${y + r}L${x - r} ${y}Z` });
  };

  const forest = () => h("div", { class: "forest", role: "list" }, data.cues.map((one) =>
    [h("div", { class: "name", role: "listitem" }, `${one.name}: ${one.what}, ${one.cue} `,
      h("small", null, `(${plural(one.n, "picture")})`)),
    h("div", null, whisker({ value: one.difference[0], low: one.difference[1], high: one.difference[2] }, "points")),
    h("div", null, `${signed(one.difference[0])} ${range(one.difference, signed)}`,
      known(one.p_value) ? h("small", null, ` p ${one.p_value.toPrecision(2)}`) : null)]));

  const histogram = (one) => {
    const [w, hgt, mid] = [320, 170, 84];
    const top = Math.max(1, ...one.positive, ...one.negative);
    const [from, to] = [one.edges[0], one.edges[one.edges.length - 1]];
    const x = (v) => 8 + ((w - 16) * (v - from)) / (to - from);
    const bars = [];
    for (let i = 0; i < one.positive.length; i += 1) {
      const [a, b] = [x(one.edges[i]), x(one.edges[i + 1])];
      const up = (66 * one.positive[i]) / top;
      const down = (66 * one.negative[i]) / top;
      bars.push(s("rect", { class: "f0", x: a + 0.5, width: b - a - 1, y: mid - up, height: up }),
        s("rect", { class: "f1", x: a + 0.5, width: b - a - 1, y: mid, height: down }));
    }
    return s("svg", { viewBox: `0 0 ${w} ${hgt}`, role: "img",
      "aria-label": `Scores of ${one.name}: ${one.sides[0]} above the line, ${one.sides[1]} below, `
        + `from ${fixed(from)} to ${fixed(to)}; above 0 means sarcastic` }, bars,
    s("line", { class: "axis", x1: 8, x2: w - 8, y1: mid, y2: mid }),
    s("line", { class: "dash", x1: x(0), x2: x(0), y1: 8, y2: hgt - 16 }),
    s("text", { x: 8, y: 12 }, `${one.sides[0]} (should be above 0)`),
    s("text", { x: 8, y: hgt - 20 }, `${one.sides[1]} (should be below 0)`),
    s("text", { x: 8, y: hgt - 4 }, fixed(from)),
    s("text", { x: x(0), y: hgt - 4, "text-anchor": "middle" }, "s = 0"),
    s("text", { x: w - 8, y: hgt - 4, "text-anchor": "end" }, fixed(to)));
  };

  const square = (title, label, curve, dots) => {
    const at = (v) => 26 + 140 * v;
    const up = (v) => 150 - 140 * v;
    return s("svg", { viewBox: "0 0 176 182", role: "img", "aria-label": label },
      s("rect", { class: "axis", x: 26, y: 10, width: 140, height: 140 }),
      s("line", { class: "dash", x1: at(0), y1: up(0), x2: at(1), y2: up(1) }),
      curve.length ? s("path", { class: "line s0",
        d: "M" + curve.map(([a, b]) => `${at(a).toFixed(1)} ${up(b).toFixed(1)}`).join("L") }) : null,
      dots.map(([a, b, n]) => s("circle", { class: "f0", cx: at(a), cy: up(b), r: 2 + Math.min(5, Math.sqrt(n) / 3) })),
      s("text", { x: 96, y: 176, "text-anchor": "middle", class: "strong" }, title),
      s("text", { x: 26, y: 163 }, "0"), s("text", { x: 166, y: 163, "text-anchor": "end" }, "1"),
      s("text", { x: 21, y: 16, "text-anchor": "end" }, "1"));
  };

  const scoreCard = (one) => h("div", { class: "card" }, h("h3", null, one.name),
    histogram(one),
    h("div", { class: "two" },
      square("ROC", `ROC curve, area ${fixed(one.auroc[0])} percent`, one.roc, []),
      square("stated against observed", `Reliability of s, expected calibration error ${fixed(100 * one.ece)} points`,
        [], one.bins)),
    h("dl", { class: "facts" },
      h("dt", null, "AUROC"), h("dd", null, `${fixed(one.auroc[0])} ${range(one.auroc)}`),
      h("dt", null, `${one.sides[0]} ranked above ${one.sides[1]}`),
      h("dd", null, `${fixed(one.ranking[0])} ${range(one.ranking)} of ${plural(one.n, "picture")}`),
      h("dt", null, "accuracy"), h("dd", null, `${fixed(one.accuracy[0])} as answered, `
        + `${fixed(one.threshold_accuracy[0])} ${range(one.threshold_accuracy)} at the best threshold (cross-fit)`),
      h("dt", null, "calibration error"), h("dd", null, `${fixed(100 * one.ece)} points on complete pairs`),
      h("dt", null, "scores from"), h("dd", null, one.sources.join(", ") || "unknown",
        known(one.low_mass) ? `; ${fixed(100 * one.low_mass)}% with less than half the probability on Yes and No` : "",
        known(one.disagree) ? `; ${fixed(100 * one.disagree)}% where words and score disagree` : "")));

  const stacked = (one) => h("div", { class: "card" },
    h("h3", null, `${one.name}, ${one.task}`),
    h("ul", { class: "key" }, one.outcomes.filter((_, i) => one.rows.some((row) => row.counts[i])).map((o) =>
      h("li", null, h("span", { class: `swatch o-${o}` }), o))),
    h("div", { class: "stack" }, one.rows.map((row) => {
      const text = one.outcomes.map((o, i) => [o, row.counts[i]]).filter(([, n]) => n)
        .map(([o, n]) => `${o} ${n}`).join(", ");
      const bar = h("div", { class: "bar", role: "img", "aria-label": `${row.name}: ${text} of ${row.n}` },
        one.outcomes.map((o, i) => {
          const share = (100 * row.counts[i]) / row.n;
          if (!row.counts[i]) return null;
          const piece = h("span", { class: `o-${o}`, title: `${o}: ${row.counts[i]} of ${row.n}` },
            share >= 14 ? `${share.toFixed(0)}%` : "");
          piece.style.width = `${share}%`;
          return piece;
        }));
      return [h("div", { class: "name" }, row.name, " ", h("small", null, `n ${row.n}`)), bar];
    })),
    one.overlap ? h("p", { class: "soft small" },
      `${plural(one.overlap, "answer")} hold several of the official flags at once; bars show one outcome each.`) : null);

  // ---- the pair browser ----------------------------------------------------------------------
  const SLOTS = {
    P: "P, sarcastic", "P-": "P-, sarcastic, cue masked", M: "M, mismatched", "M+": "M+, mismatched, cue added",
    L: "L, literal",
  };
  const CLEAN = { "P-": "P", "M+": "M" };
  const answerOf = (caption, config) => {
    const found = caption.answers.find(([c]) => c === config);
    return found ? found[1] : null;
  };
  const captionOf = (picture, slot) => picture.captions.find((c) => c.slot === slot);
  const right = (picture, slot, config) => {
    const caption = captionOf(picture, slot);
    const answer = caption && answerOf(caption, config);
    return answer ? answer.ok : null;
  };
  const flips = (picture, config) => picture.captions.filter((caption) => {
    const clean = CLEAN[caption.slot] && captionOf(picture, CLEAN[caption.slot]);
    const [a, b] = [clean && answerOf(clean, config), answerOf(caption, config)];
    return a && b && a.v !== b.v;
  });
  const disagree = (picture, configurations) => picture.captions.some((caption) => {
    const by = new Map();
    for (const [c, answer] of caption.answers) {
      const key = `${configurations[c].prompt}/${configurations[c].modality}`;
      if (!by.has(key)) by.set(key, new Set());
      by.get(key).add(String(answer.v));
    }
    return [...by.values()].some((verdicts) => verdicts.size > 1);
  });
  const several = (configurations) => new Set(configurations.map((c) => c.model)).size > 1;
  const has = (picture, config) => picture.captions.some((c) => answerOf(c, config));

  const pairView = {
    name: "pairs", title: "PragMatch pairs", key: "pair",
    configurations: data.pairs.configurations, items: data.pairs.pictures,
    idOf: (picture) => picture.id,
    labelOf: (picture) => picture.id,
    filters: [
      ["all", "all pictures", has],
      ["p-not-m", "P right, M wrong", (x, c) => right(x, "P", c) === 1 && right(x, "M", c) === 0],
      ["m-not-p", "M right, P wrong", (x, c) => right(x, "P", c) === 0 && right(x, "M", c) === 1],
      ["both", "both right", (x, c) => right(x, "P", c) === 1 && right(x, "M", c) === 1],
      ["neither", "both wrong", (x, c) => right(x, "P", c) === 0 && right(x, "M", c) === 0],
      ["l-wrong", "L wrong", (x, c) => right(x, "L", c) === 0],
      ["flipped", "flipped by a cue", (x, c) => flips(x, c).length > 0],
      ["unusable", "an answer without a verdict", (x, c) => x.captions.some((y) => {
        const a = answerOf(y, c);
        return a && a.st !== "ok";
      })],
      ["disagree", "models disagree", (x) => disagree(x, data.pairs.configurations)],
    ],
    marks: (x, c) => ["P", "M", "L"].map((slot) => [slot, right(x, slot, c)]).filter(([, ok]) => known(ok))
      .map(([slot, ok]) => `${slot}${ok ? "✓" : "✗"}`).join(" "),
    text: (x) => [x.id, ...x.captions.flatMap((c) => [c.text, ...c.answers.map(([, a]) => a.w)])].join("\n"),
    draw: (x, config) => drawPair(x, config),
  };
  const outcomeOf = (item, config) => {
    const found = item.results.find(([c]) => c === config);
    return found ? found[1].o : null;
  };
  const questionView = {
    name: "questions", title: "CLASH questions", key: "question",
    configurations: data.questions.configurations, items: data.questions.items,
    idOf: (item) => `${item.sample}~${item.kind}`,
    labelOf: (item) => (item.kind === "original" ? `${item.sample} (true)` : item.sample),
    filters: [
      ["all", "all questions", (x, c) => outcomeOf(x, c) !== null],
      ["missed", "conflict missed", (x, c) => x.kind === "conflicting" && outcomeOf(x, c) !== null
        && outcomeOf(x, c) !== "conflict"],
      ["flagged", "conflict flagged", (x, c) => x.kind === "conflicting" && outcomeOf(x, c) === "conflict"],
      ["alarm", "false alarm (true caption)", (x, c) => x.kind === "original" && outcomeOf(x, c) === "conflict"],
      ["image", "the picture's answer", (x, c) => outcomeOf(x, c) === "image"],
      ["text", "the caption's answer", (x, c) => outcomeOf(x, c) === "text"],
      ["unusable", "unusable, none, empty or failed", (x, c) =>
        ["unusable", "none", "empty", "failed"].includes(outcomeOf(x, c))],
      ["suspicious", "read suspiciously", (x, c) => x.results.some(([of, r]) => of === c && r.signs)],
      ["disagree", "models disagree", (x) => {
        const by = new Map();
        for (const [c, result] of x.results) {
          const key = data.questions.configurations[c].form;
          if (!by.has(key)) by.set(key, new Set());
          by.get(key).add(result.o);
        }
        return [...by.values()].some((found) => found.size > 1);
      }],
    ],
    marks: (x, c) => outcomeOf(x, c) || "",
    text: (x) => [x.id, x.sample, x.caption, x.question, ...x.answers, ...x.categories,
      ...x.results.map(([, r]) => r.w)].join("\n"),
    draw: (x, config) => drawQuestion(x, config),
  };
  for (const view of [pairView, questionView]) {
    if (!several(view.configurations)) view.filters = view.filters.filter(([name]) => name !== "disagree");
  }

  const wellFormed = (text) => text.replace(/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g, "\ufffd");
  const encode = (text) => encodeURIComponent(wellFormed(String(text)));

  const picture = (id, name) => {
    const uri = Object.prototype.hasOwnProperty.call(data.thumbs, id) ? data.thumbs[id] : "";
    return uri.startsWith("data:image/jpeg;base64,")
      ? h("img", { src: uri, alt: `Picture ${name}`, loading: "lazy" })
      : h("div", { class: "blank" }, data.media.shown ? "no picture here" : "pictures left out");
  };

  const words = (text, open) => {
    if (!text) return h("span", { class: "soft" }, "(nothing)");
    if (open || text.length <= 160) return text;
    return h("details", null, h("summary", null, `${text.slice(0, 90)} … ${text.slice(-50)}`), text);
  };
  const verdict = (answer) => {
    const text = answer.v === 1 ? "Yes" : answer.v === 0 ? "No" : answer.st;
    return h("span", { class: answer.ok ? "good" : answer.v === null ? "unsure" : "bad" },
      `${answer.ok ? "✓" : "✗"} ${text}`, h("span", { class: "soft" }, answer.ok ? " right" : " wrong"));
  };

  const difference = (before, after) => {
    const [a, b] = [before.split(/(\s+)/), after.split(/(\s+)/)];
    if (a.length * b.length > 250000) return [[before], [after]];
    const table = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
    for (let i = a.length - 1; i >= 0; i -= 1) {
      for (let j = b.length - 1; j >= 0; j -= 1) {
        table[i][j] = a[i] === b[j] ? table[i + 1][j + 1] + 1 : Math.max(table[i + 1][j], table[i][j + 1]);
      }
    }
    const [left, rightSide] = [[], []];
    let [i, j] = [0, 0];
    while (i < a.length || j < b.length) {
      if (i < a.length && j < b.length && a[i] === b[j]) {
        left.push(a[i]); rightSide.push(b[j]); i += 1; j += 1;
      } else if (j >= b.length || (i < a.length && table[i + 1][j] >= table[i][j + 1])) {
        left.push(h("del", null, a[i])); i += 1;
      } else {
        rightSide.push(h("mark", null, b[j])); j += 1;
      }
    }
    return [left, rightSide];
  };

  const drawFlip = (x, caption, config) => {
    const clean = captionOf(x, CLEAN[caption.slot]);
    const [a, b] = [answerOf(clean, config), answerOf(caption, config)];
    const [before, after] = difference(clean.text, caption.text);
    return h("div", { class: "said", "data-flip": caption.slot },
      h("h4", null, `Flipped by the ${caption.cue} cue (${clean.slot} against ${caption.slot})`),
      h("div", { class: "sides" },
        h("div", null, h("p", null, before), h("p", null, verdict(a)), words(a.w, true)),
        h("div", null, h("p", null, after), h("p", null, verdict(b)), words(b.w, true))));
  };

  const drawPair = (x, config) => {
    const configurations = data.pairs.configurations;
    const parts = flips(x, config).map((caption) => drawFlip(x, caption, config));
    for (const caption of x.captions) {
      const ordered = [...caption.answers].sort(([a], [b]) => (a === config ? -1 : b === config ? 1 : a - b));
      parts.push(h("div", { class: "said" },
        h("p", null, h("span", { class: "badge" }, SLOTS[caption.slot] || caption.slot),
          caption.cue ? h("span", { class: "badge" }, caption.cue) : null,
          h("span", { class: "soft small" }, `should be ${caption.slot[0] === "P" ? "Yes" : "No"}; ${caption.id}`)),
        caption.text ? h("blockquote", null, caption.text) : null,
        h("table", { class: "answers four" },
          h("thead", null, h("tr", null, ["model", "answer", "s", "words"].map((t) => h("th", { scope: "col" }, t)))),
          h("tbody", null, ordered.map(([c, answer]) => h("tr", { class: c === config ? "mine" : "" },
            h("th", { scope: "row" }, configurations[c].name),
            h("td", { "data-title": "answer" }, verdict(answer)),
            h("td", { "data-title": "s" }, known(answer.s) ? signed(answer.s, 2) : "n/a"),
            h("td", { class: "words", "data-title": "words" }, words(answer.w))))))));
    }
    return parts;
  };

  const drawQuestion = (x, config) => {
    const configurations = data.questions.configurations;
    const names = ["the picture says", "the caption says", "distractor"];
    const ordered = [...x.results].sort(([a], [b]) => (a === config ? -1 : b === config ? 1 : a - b));
    return [h("div", { class: "said" },
      h("p", null, h("span", { class: "badge" }, x.kind === "original" ? "true caption" : "false caption"),
        x.categories.map((c) => h("span", { class: "badge" }, c)), h("span", { class: "soft small" }, x.sample)),
      x.caption ? h("blockquote", null, x.caption) : null,
      x.question ? h("p", null, h("strong", null, x.question)) : null,
      h("dl", { class: "facts" }, x.answers.map((answer, i) => answer
        ? [h("dt", null, names[i]), h("dd", null, answer)] : null)),
      h("table", { class: "answers" },
        h("thead", null, h("tr", null, ["model", "outcome", "words"].map((t) => h("th", { scope: "col" }, t)))),
        h("tbody", null, ordered.map(([c, r]) => h("tr", { class: c === config ? "mine" : "" },
          h("th", { scope: "row" }, configurations[c].name, known(r.rotation) ? ` (rotation ${r.rotation})` : ""),
          h("td", { "data-title": "outcome", class: r.ok ? "good" : "bad" }, `${r.ok ? "✓" : "✗"} ${r.o}`,
            r.signs ? h("small", null, ` suspicious: ${r.signs.join("; ")}`) : null,
            r.judges ? h("small", null, ` judges: ${Object.entries(r.judges).map(([j, v]) => `${j} ${v || "none yet"}`).join(", ")}`) : null),
          h("td", { class: "words", "data-title": "words" }, words(r.w)))))))];
  };

  const LISTED = 400;
  const browser = () => {
    const views = [pairView, questionView].filter((view) => view.items.length);
    if (!views.length) return;
    const state = { view: views[0], config: 0, filter: "all", query: "", shown: [], at: 0 };
    const viewBox = h("select", { id: "view" }, views.map((v) => h("option", { value: v.name }, v.title)));
    const configBox = h("select", { id: "config" });
    const filterBox = h("select", { id: "filter" });
    const search = h("input", { id: "search", type: "search", autocomplete: "off", placeholder: "id, caption or answer" });
    const position = h("p", { id: "position", role: "status", "aria-live": "polite" });
    const previous = h("button", { type: "button", id: "previous" }, "← previous");
    const next = h("button", { type: "button", id: "next" }, "next →");
    const list = h("div", { class: "list", role: "navigation", "aria-label": "Matching pairs" });
    const card = h("article", { class: "card", id: "pair", "aria-label": "Pair", tabindex: "-1" });

    const link = (item) => `#${state.view.key}=${encode(state.view.idOf(item))}&by=${state.config}&filter=${encode(state.filter)}`;
    const matches = (item, test) => test(item, state.config)
      && (!state.query || state.view.text(item).toLowerCase().includes(state.query));

    const fillControls = () => {
      configBox.replaceChildren(...state.view.configurations.map((c, i) => h("option", { value: i }, c.name)));
      configBox.value = String(state.config);
      filterBox.replaceChildren(...state.view.filters.map(([name, title, test]) =>
        h("option", { value: name }, `${title} (${state.view.items.filter((x) => test(x, state.config)).length})`)));
      filterBox.value = state.filter;
      viewBox.value = state.view.name;
    };
    const select = (keep) => {
      const [, , test] = state.view.filters.find(([name]) => name === state.filter) || state.view.filters[0];
      state.shown = state.view.items.filter((x) => matches(x, test));
      const at = keep === undefined ? -1 : state.shown.findIndex((x) => state.view.idOf(x) === keep);
      state.at = Math.max(0, at);
      draw();
      return at >= 0;
    };
    const draw = () => {
      const item = state.shown[state.at];
      position.textContent = item
        ? `${state.at + 1} of ${state.shown.length}` : "nothing matches this filter";
      previous.disabled = state.at <= 0;
      next.disabled = state.at >= state.shown.length - 1;
      const first = Math.max(0, Math.min(state.at - LISTED / 2, state.shown.length - LISTED));
      const rows = state.shown.slice(first, first + LISTED).map((x, i) => h("li", null,
        h("a", { href: link(x), "aria-current": first + i === state.at ? "true" : null },
          h("span", null, state.view.labelOf(x)), h("span", { class: "marks" }, state.view.marks(x, state.config)))));
      list.replaceChildren(rows.length ? h("ol", null, rows)
        : h("p", { class: "none soft" }, "Nothing matches."),
      ...(state.shown.length > LISTED ? [h("p", { class: "none soft" }, `${state.shown.length - LISTED} more by next and previous`)] : []));
      const current = list.querySelector("[aria-current]");
      if (current) list.scrollTop = current.offsetTop - list.offsetTop - list.clientHeight / 2;
      card.replaceChildren(...(item ? [h("div", { class: "pairhead" }, picture(item.id, state.view.idOf(item)),
        h("div", null, h("h3", null, item.id),
          item.data ? h("p", { class: "soft small" }, `data ${item.data}`) : null,
          h("p", null, h("a", { id: "permalink", href: link(item) }, "link to this pair")))),
      ...state.view.draw(item, state.config)] : []));
    };
    const go = (step) => {
      const to = state.at + step;
      if (to < 0 || to >= state.shown.length) return;
      state.at = to;
      draw();
      try { history.replaceState(null, "", link(state.shown[to])); } catch { /* from disk, some browsers refuse */ }
    };
    const fromHash = (move) => {
      const found = new Map(location.hash.slice(1).split("&").map((part) => {
        const [key, ...rest] = part.split("=");
        let value = rest.join("=");
        try { value = decodeURIComponent(value); } catch { /* shown as it is */ }
        return [key, value];
      }));
      const view = views.find((v) => found.has(v.key));
      if (!view) return false;
      state.view = view;
      const config = Number(found.get("by") || 0);
      state.config = Number.isInteger(config) && config >= 0 && config < view.configurations.length ? config : 0;
      state.filter = view.filters.some(([name]) => name === found.get("filter")) ? found.get("filter") : "all";
      state.query = "";
      search.value = "";
      const wanted = found.get(view.key);
      const exact = view.items.find((x) => wellFormed(view.idOf(x)) === wanted);
      if (exact && !select(view.idOf(exact))) {
        // The link's filter no longer holds the pair: show it among all.
        state.filter = "all";
        const asked = view.configurations.findIndex((_, c) => view.filters[0][2](exact, c));
        if (asked >= 0) state.config = asked;
        select(view.idOf(exact));
      } else if (!exact) {
        select();
      }
      fillControls();
      if (move) card.scrollIntoView({ block: "start" });
      return true;
    };
    const here = () => (state.shown[state.at] ? state.view.idOf(state.shown[state.at]) : undefined);
    viewBox.addEventListener("change", () => {
      state.view = views.find((v) => v.name === viewBox.value);
      state.config = 0; state.filter = "all";
      select(); fillControls();
    });
    configBox.addEventListener("change", () => { state.config = Number(configBox.value); select(here()); fillControls(); });
    filterBox.addEventListener("change", () => { state.filter = filterBox.value; select(here()); });
    search.addEventListener("input", () => { state.query = search.value.trim().toLowerCase(); select(here()); });
    previous.addEventListener("click", () => go(-1));
    next.addEventListener("click", () => go(1));
    window.addEventListener("hashchange", () => fromHash(true));
    document.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const typing = event.target.closest("input, select, textarea");
      if (event.key === "Escape" && typing) { typing.blur(); return; }
      if (typing) return;
      if (event.key === "ArrowRight" && event.target.closest(".wide")) return;
      if (event.key === "ArrowLeft" && event.target.closest(".wide")) return;
      const keys = { ArrowRight: () => go(1), j: () => go(1), ArrowLeft: () => go(-1), k: () => go(-1),
        "/": () => search.focus(), f: () => filterBox.focus() };
      if (!keys[event.key]) return;
      event.preventDefault();
      keys[event.key]();
    });
    section("pairs", "Pair by pair",
      h("p", { class: "soft" }, "One picture at a time, with its captions and what each model made of them. ",
        h("kbd", null, "←"), " ", h("kbd", null, "→"), " or ", h("kbd", null, "j"), " ", h("kbd", null, "k"),
        " move, ", h("kbd", null, "f"), " goes to the filter, ", h("kbd", null, "/"), " to the search."),
      data.media.cap ? h("p", { class: "soft small" },
        `Answers longer than ${data.media.cap} characters are cut in their middle here; the run folder holds them whole.`) : null,
      h("div", { class: "controls", role: "search", "aria-label": "Choose pairs" },
        views.length > 1 ? h("label", null, "show", viewBox) : null,
        h("label", null, "answers of", configBox), h("label", null, "filter", filterBox),
        h("label", null, "search", search), previous, next, position),
      h("div", { class: "browser" }, list, card));
    if (!fromHash(false)) { select(); fillControls(); } else card.scrollIntoView({ block: "start" });
  };

  // ---- the page ------------------------------------------------------------------------------
  const banner = document.getElementById("banner");
  if (data.kinds.includes("sample")) {
    banner.textContent = "Sample: these figures rest on the few pictures that ship with pragclash. They show how to read "
      + "a report; they are not a benchmark result.";
    banner.hidden = false;
  } else if (data.kinds.includes("custom")) {
    banner.textContent = "Custom data: figures are not comparable with the papers'.";
    banner.hidden = false;
  }
  section("findings", "What the runs show",
    h("ul", { class: "headline" }, data.headline.map((text) => h("li", null, text))),
    data.headline.length ? null : h("p", null, "No run of pairs, groups or CLASH questions is here."));
  if (data.problems.length) {
    section("problems", "Left aside", h("ul", null, data.problems.map((text) => h("li", null, text))));
  }
  if (data.tables.length) {
    section("tables", "Tables", h("p", { class: "soft small" },
      `Percent, with ${100 * data.settings.level}% intervals over pictures; the diamond is the paper's number.`),
    data.tables.map(drawTable));
  }
  if (data.plane.length) section("plane", "Sarcasm against mismatch", plane());
  if (data.cues.length) {
    section("cues", "What a cue changes", h("p", { class: "soft small" },
      "Accuracy on the edited caption less that on the original, same pictures, in points from -100 to 100."), forest());
  }
  if (data.scores.length) {
    const edited = data.scores.filter((one) => one.sides[0] !== "P");
    section("scores", "Scores", h("p", { class: "soft small" },
      "s is the log of the odds of Yes against No; a model that can tell has the upper bars right of 0 and the lower left."),
    h("div", { class: "grid roomy" }, data.scores.filter((one) => one.sides[0] === "P").map(scoreCard)),
    edited.length ? h("details", null, h("summary", null, `Edited captions (${edited.length})`),
      h("div", { class: "grid roomy" }, edited.map(scoreCard))) : null);
  }
  if (data.clash.length) {
    section("clash", "CLASH: what the answers say", h("div", { class: "grid roomy" }, data.clash.map(stacked)));
  }
  browser();
  section("provenance", "How the runs were made", data.provenance.map((run) => h("div", null,
    h("h3", null, run.label),
    h("dl", { class: "facts" }, h("dt", null, "model"), h("dd", null, run.model),
      run.arguments ? [h("dt", null, "arguments"), h("dd", null, run.arguments)] : null,
      h("dt", null, "folder"), h("dd", null, run.folder)),
    run.invocations.map((one) => h("details", { open: run.invocations.length === 1 },
      h("summary", null, `Run ${one.date}: ${one.tasks.map((t) => t.task).join(", ")}`),
      one.command ? h("pre", null, one.command) : h("p", { class: "soft" }, "Command not recorded."),
      h("dl", { class: "facts" }, one.facts.map(([key, value]) => [h("dt", null, key), h("dd", null, value)])),
      one.tasks.map((t) => h("details", null, h("summary", null,
        `${t.task}: ${plural(t.rows, "document")}${t.complete ? "" : ", incomplete"}${known(t.limit) ? `, limit ${t.limit}` : ""}`),
      h("dl", { class: "facts" },
        h("dt", null, "data"), h("dd", null, t.data.join("; ")),
        h("dt", null, "pictures left out at load"), h("dd", null, t.left_out),
        h("dt", null, "prompt"), h("dd", null, t.wording.join("; ")),
        Object.keys(t.generation).length ? [h("dt", null, "generation"),
          h("dd", null, Object.entries(t.generation).map(([k, v]) => `${k} ${v}`).join(", "))] : null),
      t.prompt ? h("pre", null, t.prompt) : null)))))));
  document.getElementById("foot").textContent = `Intervals and tests are over pictures; tests that draw, seed `
    + `${data.settings.seed}. This page loads nothing from anywhere.`;
  document.documentElement.setAttribute("data-ready", "true");
})();
