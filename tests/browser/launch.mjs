// Starts the browser for a test script and prints what the script reports.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";

export async function run(test) {
  const config = JSON.parse(readFileSync(0, "utf8"));
  const { chromium } = createRequire(import.meta.url)(config.playwright);
  const browser = await chromium.launch({
    executablePath: config.chromium,
    // Tests often run as root, where chromium's sandbox refuses to start.
    args: ["--no-sandbox"],
  });
  try {
    console.log(JSON.stringify(await test(browser, config)));
  } finally {
    await browser.close();
  }
}

// Console messages, failed scripts and refused loads of a page: a test expects none.
export function complaints(page, list = []) {
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) list.push(message.text());
  });
  page.on("pageerror", (error) => list.push(error.message));
  return list;
}
