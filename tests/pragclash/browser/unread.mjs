// Ten unread answers settled by keyboard alone, with a server that is killed in the middle. Reports
// what was seen; tests/pragclash/cli/test_unread_page.py says what should have been.
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

const text = (page, id) => page.textContent(`#${id}`);
const answered = (page, n, of) =>
  page.waitForFunction(
    (t) => document.querySelector("#progress-text").textContent === t,
    `${n} of ${of} answered`,
  );

await run(async (browser, config) => {
  const seen = { given: {} };
  let running = await start(config.command);
  try {
    const page = await (await browser.newContext()).newPage();
    const errors = complaints(page);
    const asked = [];
    page.on("request", (request) => request.url().includes("/picture/") && asked.push(request.url()));
    await page.goto(running.link);
    await page.waitForSelector("#item:not([hidden])");
    seen.shown = await text(page, "shown");
    seen.pictureHidden = !(await page.isVisible("#picture")) && asked.length === 0;
    await page.keyboard.press("p");
    await page.waitForSelector("#picture[data-state=shown]");
    seen.pictureOnKey = await page.isVisible("#picture");
    await page.keyboard.press("p");
    seen.pictureGone = !(await page.isVisible("#picture"));

    const answer = async (n) => {
      const words = await page.locator("#shown .text").first().textContent();
      const key = config.keys[words];
      seen.given[words] = key;
      await page.keyboard.press(key);
      await answered(page, n, config.items);
    };
    for (let n = 1; n <= 4; n += 1) await answer(n);

    // Killed; a key is pressed meanwhile; the server comes back and the page is loaded anew.
    const gone = once(running.server, "exit");
    running.server.kill("SIGKILL");
    await gone;
    const words = await page.locator("#shown .text").first().textContent();
    seen.given[words] = config.keys[words];
    await page.keyboard.press(config.keys[words]);
    await page.waitForSelector("#trouble:not([hidden])");
    running = await start(config.command);
    await answered(page, 5, config.items);
    await page.reload();
    await page.waitForSelector("#item:not([hidden])");
    seen.afterReload = await text(page, "progress-text");

    for (let n = 6; n <= config.items; n += 1) await answer(n);
    await page.waitForSelector("#done:not([hidden])");
    seen.done = await text(page, "done-title");
    seen.errors = errors.filter((line) => !line.includes("ERR_CONNECTION_REFUSED"));
    return seen;
  } finally {
    running.server.kill("SIGKILL");
  }
});
