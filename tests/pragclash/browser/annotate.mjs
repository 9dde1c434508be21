// The annotation page as people use it, with a server that is killed in the middle. Reports what
// was seen; tests/pragclash/test_annotate_page.py says what should have been.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { complaints, run } from "../../browser/launch.mjs";

async function start(command) {
  const server = spawn(command[0], command.slice(1), { stdio: ["ignore", "pipe", "inherit"] });
  let told = "";
  const link = await new Promise((found, failed) => {
    server.stdout.on("data", (chunk) => {
      told += chunk;
      const line = told.match(/open (\S+)\n/);
      if (line) found(line[1]);
    });
    server.on("exit", () => failed(new Error(`the server ended: ${told}`)));
  });
  return { server, link };
}

async function kill({ server }) {
  const gone = once(server, "exit");
  server.kill("SIGKILL");
  await gone;
}

const text = (page, id) => page.textContent(`#${id}`);
const shown = (page) => page.waitForSelector("#picture[data-state=shown]");
const title = (page, expected) =>
  page.waitForFunction((t) => document.querySelector("#item-title").textContent === t, expected);
const focused = (page) =>
  page.evaluate(() => document.activeElement.id || document.activeElement.tagName);

async function answer(page, key, next) {
  await shown(page);
  await page.keyboard.press(key);
  await title(page, next);
  await shown(page);
}

await run(async (browser, config) => {
  const seen = {};
  let running = await start(config.command);
  try {
    const page = await (
      await browser.newContext({ viewport: { width: 1280, height: 800 } })
    ).newPage();
    const errors = complaints(page);
    const outside = [];
    page.on("request", (r) => r.url().startsWith(new URL(running.link).origin) || outside.push(r.url()));
    const of = config.items;
    const item = (n) => `Item ${n} of ${of}`;
    const shot = (name) =>
      config.shots && page.screenshot({ path: `${config.shots}/${name}.png` });

    // Vote by keyboard, and see where focus and the live region are.
    await page.goto(running.link);
    await answer(page, "y", item(2));
    seen.afterVote = {
      status: await text(page, "status"),
      focus: await focused(page),
      progress: await text(page, "progress-text"),
      title: await page.title(),
    };

    // A key that is held down, or pressed with Ctrl, votes once or never.
    await page.keyboard.down("n");
    await title(page, item(3));
    await shown(page);
    for (let i = 0; i < 5; i += 1) await page.keyboard.down("n");
    await page.keyboard.up("n");
    await page.waitForTimeout(200);
    await page.keyboard.press("Control+y");
    seen.afterHeldKey = await text(page, "progress-text");

    // The whole round with Tab, Space and Enter alone.
    const path = [];
    await page.focus("#help-open");
    for (let i = 0; i < 9; i += 1) {
      await page.keyboard.press("Tab");
      path.push(
        await page.evaluate(() => {
          const at = document.activeElement;
          const style = getComputedStyle(at);
          const ring = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
          return { name: at.dataset.value ?? at.id, ring };
        }),
      );
    }
    seen.tabs = path;
    await page.focus("#labels button[data-value=unclear]");
    await page.keyboard.press("Enter");
    await title(page, item(4));
    seen.afterEnter = { status: await text(page, "status"), focus: await focused(page) };

    // Undo twice, change of mind, moving without voting.
    await shown(page);
    await page.keyboard.press("z");
    await title(page, item(3));
    seen.afterUndo = { status: await text(page, "status"), state: await text(page, "item-state") };
    await shown(page);
    await page.click("#undo");
    await title(page, item(2));
    seen.afterUndoTwice = await text(page, "progress-text");
    await answer(page, "u", item(3));
    await answer(page, "ArrowLeft", item(2));
    seen.back = {
      state: await text(page, "item-state"),
      pressed: await page.getAttribute("#labels button[data-value=unclear]", "aria-pressed"),
    };

    // A double click is one vote.
    await answer(page, "o", item(3));
    const box = await page.locator("#labels button[data-value=no]").boundingBox();
    const spot = [box.x + box.width / 2, box.y + box.height / 2];
    await page.mouse.click(...spot);
    await title(page, item(4));
    await shown(page);
    await page.mouse.down({ clickCount: 2 });
    await page.mouse.up({ clickCount: 2 });
    await page.waitForTimeout(200);
    seen.afterDoubleClick = await text(page, "progress-text");

    // Reload: nothing is forgotten, and the page opens where the work is.
    await page.reload();
    await title(page, item(4));
    seen.afterReload = await text(page, "progress-text");

    // The server is killed; a vote is given meanwhile; the server comes back.
    await shown(page);
    await kill(running);
    await page.keyboard.press("y");
    await page.waitForSelector("#trouble:not([hidden])");
    seen.whileDown = {
      trouble: await text(page, "trouble-text"),
      role: await page.getAttribute("#trouble", "role"),
      item: await text(page, "item-title"),
    };
    await page.keyboard.press("n");
    await shot("server-down");
    running = await start(config.command);
    await title(page, item(5));
    seen.afterRestart = {
      status: await text(page, "status"),
      progress: await text(page, "progress-text"),
      trouble: await page.isVisible("#trouble"),
    };

    // Killed again, and this time the page is reloaded before it could send.
    await shown(page);
    await kill(running);
    await page.keyboard.press("n");
    await page.waitForSelector("#trouble:not([hidden])");
    running = await start(config.command);
    page.on("dialog", (dialog) => dialog.accept());
    await page.reload();
    await title(page, item(6));
    seen.afterReloadInTrouble = await text(page, "progress-text");

    // Help and the full-size picture: focus goes in and comes back; keys do not vote there.
    await shown(page);
    await page.focus("#help-open");
    await page.keyboard.press("Enter");
    await page.keyboard.press("y");
    seen.helpFocus = await focused(page);
    await shot("help");
    await page.keyboard.press("Escape");
    seen.helpReturns = await focused(page);
    seen.afterHelp = await text(page, "progress-text");
    await page.keyboard.press("e");
    seen.large = await page.isVisible("#large-picture");
    await page.keyboard.press("Escape");
    await page.click("#help-open");
    await page.uncheck("#shortcuts");
    await page.keyboard.press("Escape");
    await page.keyboard.press("y");
    seen.afterShortcutsOff = await text(page, "progress-text");
    await page.click("#help-open");
    await page.check("#shortcuts");
    await page.click("#help-close");

    // Text from the data is text.
    seen.injected = await page.evaluate(
      () => document.querySelectorAll("#shown img, #shown script").length,
    );
    seen.hostile = false;
    for (let n = 6; n <= of; n += 1) {
      await title(page, item(n));
      await shown(page);
      seen.hostile ||= (await text(page, "shown")).includes(config.hostile);
      if (n < of) await page.keyboard.press("ArrowRight");
    }
    await page.keyboard.press("o");

    // To the end.
    for (let n = 6; n < of; n += 1) await answer(page, "n", item(n + 1));
    await page.keyboard.press("y");
    await page.waitForSelector("#done:not([hidden])");
    await page.waitForFunction(() => document.activeElement.id === "done-title");
    seen.done = await text(page, "done-title");
    await shot("done");
    seen.errors = errors.filter((line) => !line.includes("ERR_CONNECTION_REFUSED"));
    seen.outside = outside;

    // What the eye gets: sizes, contrast, other widths and schemes.
    seen.looks = {};
    const kinds = {
      desktop: { viewport: { width: 1280, height: 800 } },
      dark: { viewport: { width: 1280, height: 800 }, colorScheme: "dark" },
      phone: { viewport: { width: 390, height: 780 }, isMobile: true, hasTouch: true },
      narrow: { viewport: { width: 320, height: 600 } },
      contrast: { viewport: { width: 1280, height: 800 }, forcedColors: "active" },
      still: { viewport: { width: 1280, height: 800 }, reducedMotion: "reduce" },
    };
    for (const [kind, options] of Object.entries(kinds)) {
      const context = await browser.newContext(options);
      const other = await context.newPage();
      await other.goto(running.link);
      await shown(other);
      seen.looks[kind] = await other.evaluate(() => {
        const light = (color) => {
          const [r, g, b] = color.match(/[\d.]+/g).map((v) => {
            const c = v / 255;
            return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
          });
          return 0.2126 * r + 0.7152 * g + 0.0722 * b;
        };
        const ground = (node) => {
          for (let at = node; at; at = at.parentElement) {
            const color = getComputedStyle(at).backgroundColor;
            if (!/, 0\)$/.test(color)) return color;
          }
          return "rgb(255, 255, 255)";
        };
        const ratio = (a, b) => {
          const [x, y] = [light(a), light(b)].sort((p, q) => q - p);
          return (x + 0.05) / (y + 0.05);
        };
        const visible = [...document.querySelectorAll("body *")].filter(
          (node) => node.checkVisibility() && node.getClientRects().length,
        );
        const texts = visible.filter((node) =>
          [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim()),
        );
        const lowest = Math.min(
          ...texts.map((node) => ratio(getComputedStyle(node).color, ground(node))),
        );
        const buttons = visible.filter((node) => node.tagName === "BUTTON");
        return {
          contrast: lowest,
          border: Math.min(
            ...buttons.map((b) => ratio(getComputedStyle(b).borderTopColor, ground(b.parentElement))),
          ),
          smallest: Math.min(...buttons.map((b) => b.getBoundingClientRect().height)),
          overflow: document.documentElement.scrollWidth - innerWidth,
          transition: getComputedStyle(buttons[0]).transitionDuration,
          nameless: buttons.filter((b) => !b.innerText.trim()).length,
        };
      });
      if (config.shots) await other.screenshot({ path: `${config.shots}/${kind}.png` });
      if (kind === "desktop") {
        seen.landmarks = await other.evaluate(() =>
          ["header", "main", "nav[aria-label]", "h1", "main h2", "[role=status]", "[role=alert]"]
            .filter((selector) => !document.querySelector(selector)),
        );
        seen.lang = await other.getAttribute("html", "lang");
      }
      await context.close();
    }

    // CLASH: a reason is written with letters that are keys elsewhere.
    await kill(running);
    running = await start(config.clash);
    const clash = await (await browser.newContext()).newPage();
    complaints(clash, seen.errors);
    await clash.goto(running.link);
    await shown(clash);
    await clash.keyboard.press("r");
    await clash.keyboard.type("any unzoned reason");
    seen.reasonFocus = await focused(clash);
    await clash.keyboard.press("Escape");
    await clash.keyboard.press("n");
    await clash.waitForFunction(() => document.querySelector("#progress").value === 1);
    await shown(clash);
    seen.nextReason = await clash.inputValue("#reason");
    await clash.keyboard.press("ArrowLeft");
    seen.clash = {
      state: await text(clash, "item-state"),
      reason: await clash.inputValue("#reason"),
      marks: await clash.locator("#shown mark").allTextContents(),
    };
    if (config.shots) await clash.screenshot({ path: `${config.shots}/clash.png` });
    return seen;
  } finally {
    running.server.kill("SIGKILL");
  }
});
