// Drives a report in Chromium and prints what was seen as one JSON object.
// Usage: node drive.js CHROMIUM PAGE SCENARIO [SCREENSHOTS]
"use strict";
const path = require("path");
const { chromium } = require(process.env.PLAYWRIGHT_CORE);

const [executablePath, file, scenario, shots] = process.argv.slice(2);
const url = `file://${file}`;

const scenarios = {
  async open(page) {
    const size = await page.evaluate(() => ({
      scroll: document.documentElement.scrollWidth, client: document.documentElement.clientWidth,
    }));
    return {
      headings: await page.locator("h2").allTextContents(),
      landmarks: await page.evaluate(() => ["header", "nav", "main", "footer"].map((tag) =>
        document.querySelectorAll(`body > ${tag}`).length)),
      unnamed: await page.evaluate(() => [...document.querySelectorAll("select, input, button, svg[role=img], section")]
        .filter((node) => !(node.getAttribute("aria-label") || node.getAttribute("aria-labelledby")
          || node.textContent.trim() || node.closest("label"))).map((node) => node.outerHTML.slice(0, 80))),
      headline: await page.locator(".headline").textContent(),
      wide: size.scroll > size.client,
      links: await page.evaluate(() => [...document.querySelectorAll("nav a")].every((a) =>
        document.getElementById(a.getAttribute("href").slice(1)))),
    };
  },
  async browse(page) {
    const at = () => page.locator("#position").textContent();
    const title = () => page.locator("#pair h3").textContent();
    const seen = { start: [await at(), await title()] };
    await page.keyboard.press("j");
    await page.keyboard.press("ArrowRight");
    seen.moved = [await at(), await title()];
    await page.keyboard.press("k");
    seen.back = [await at(), await title()];
    seen.hash = await page.evaluate(() => location.hash);
    await page.keyboard.press("f");
    seen.focus = await page.evaluate(() => document.activeElement.id);
    await page.selectOption("#filter", "p-not-m");
    seen.filtered = [await at(), await page.locator(".list .marks").allTextContents()];
    await page.selectOption("#filter", "flipped");
    seen.flipped = [await at(), await page.locator("[data-flip] .sides > div").allTextContents()];
    await page.selectOption("#filter", "unusable");
    seen.unusable = await at();
    await page.selectOption("#filter", "disagree");
    seen.disagree = await at();
    await page.selectOption("#filter", "all");
    await page.keyboard.press("Escape");
    await page.keyboard.press("/");
    seen.search = await page.evaluate(() => document.activeElement.id);
    await page.keyboard.type("0003-");
    seen.found = [await at(), await title()];
    await page.keyboard.press("j");
    seen.typed = await page.inputValue("#search");
    await page.fill("#search", "");
    await page.selectOption("#config", "1");
    seen.other = await page.locator("#pair tr.mine th").first().textContent();
    await page.selectOption("#view", "questions");
    seen.questions = [await at(), await title()];
    await page.selectOption("#filter", "alarm");
    seen.alarms = await at();
    return seen;
  },
  async link(page) {
    // A click changes the hash; the page follows it in an event of its own.
    const followed = (tab) => tab.waitForFunction(() => {
      const pair = new URLSearchParams(location.hash.slice(1)).get("pair");
      return pair && document.querySelector("#pair h3").textContent === pair;
    });
    await page.locator(".list a").nth(4).click();
    await followed(page);
    const clicked = await page.locator("#pair h3").textContent();
    const href = await page.locator("#permalink").getAttribute("href");
    const other = await page.context().newPage();
    await other.goto(url + href);
    await other.waitForSelector("html[data-ready]");
    const opened = await other.locator("#pair h3").textContent();
    await other.goto(url + "#pair=0002&by=0&filter=both");
    await followed(other);
    return {
      clicked, href, opened, elsewhere: await other.locator("#pair h3").textContent(),
      hash: await page.evaluate(() => location.hash),
      nonsense: await (async () => {
        await other.goto(url + "#pair=%E0%A4%A&by=99&filter=nothing");
        await other.waitForSelector("html[data-ready]");
        return other.locator("#position").textContent();
      })(),
    };
  },
  async hostile(page) {
    await page.waitForTimeout(100);
    const said = [];
    for (let i = 0; i < 6; i += 1) {
      said.push(await page.locator("#pair").evaluate((node) => node.textContent));
      await page.keyboard.press("j");
    }
    return {
      said,
      scripts: await page.locator("script").count(),
      images: await page.locator("img").count(),
      bold: await page.locator("#pair b, #pair script, #pair style").count(),
      permalink: await page.locator("#permalink").getAttribute("href"),
    };
  },
};

(async () => {
  const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
  const result = { dialogs: [], errors: [], requests: [] };
  const looks = [[1280, 900, "light"], [1280, 900, "dark"], [390, 844, "light"], [390, 844, "dark"]];
  for (const [width, height, colorScheme] of scenario === "open" ? looks : looks.slice(0, 1)) {
    const context = await browser.newContext({ viewport: { width, height }, colorScheme });
    const page = await context.newPage();
    page.on("dialog", (dialog) => { result.dialogs.push(dialog.message()); dialog.dismiss(); });
    page.on("pageerror", (error) => result.errors.push(String(error)));
    page.on("console", (message) => { if (message.type() === "error") result.errors.push(message.text()); });
    page.on("request", (request) => {
      if (!request.url().startsWith("data:") && !request.url().startsWith(url)) result.requests.push(request.url());
    });
    const begun = Date.now();
    await page.goto(url);
    await page.waitForSelector("html[data-ready]");
    const name = scenario === "open" ? `${width}-${colorScheme}` : "seen";
    result[name] = { ms: Date.now() - begun, ...(await scenarios[scenario](page)) };
    if (shots) await page.screenshot({ path: path.join(shots, `${scenario}-${name}.png`), fullPage: true });
    await context.close();
  }
  await browser.close();
  process.stdout.write(JSON.stringify(result));
})().catch((error) => { process.stderr.write(String(error.stack)); process.exit(1); });
