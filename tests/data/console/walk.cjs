// A person's way through the console, in headless Chromium. Every step asserts what is seen; at the
// end nothing may have run that the pages did not bring, and the browser may not have complained.
"use strict";
const assert = require("node:assert/strict");
const { mkdirSync } = require("node:fs");
const { join } = require("node:path");
const { chromium } = require(process.env.PLAYWRIGHT);

const { OPEN, LOGIN, KEY, USER_KEY, SCREENSHOTS } = process.env;
const WIDE = { width: 1280, height: 860 };
const NARROW = { width: 390, height: 844 };
const EVIL = "<script>window.hacked = 5</script><img src=x onerror=\"window.hacked = 6\"> javascript:alert(7) \u202etxt";
const PATIENCE = 60_000;

const trouble = [];

async function visitor(browser, options = {}) {
  const context = await browser.newContext({ viewport: WIDE, locale: "en-US", colorScheme: "light", ...options });
  context.setDefaultTimeout(PATIENCE);
  const page = await context.newPage();
  await page.addInitScript(() => {
    document.addEventListener("securitypolicyviolation", (event) => console.error(`policy: ${event.violatedDirective} ${event.blockedURI}`));
  });
  // What a page with an error's status is reported as is no complaint about the page.
  page.on("console", (message) => {
    if (message.type() === "error" && !message.text().startsWith("Failed to load resource")) trouble.push(message.text());
  });
  page.on("pageerror", (error) => trouble.push(`error: ${error}`));
  page.on("dialog", (dialog) => { trouble.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
  page.on("request", (request) => {
    const url = request.url();
    if (!url.startsWith(OPEN) && !url.startsWith(LOGIN)) trouble.push(`request: ${url}`);
  });
  return page;
}

async function begin(page, agent, task, conversation = "") {
  await page.goto(`${OPEN}/console`);
  await page.locator("#start > summary").focus();
  await page.keyboard.press("Enter");
  await page.locator("#start select[name=agent]").selectOption(agent);
  await page.locator("#start input[name=conversation]").fill(conversation);
  await page.locator("#start textarea").fill(task);
  await page.locator("#start button").click();
  await page.waitForURL(/\/console\/sessions\/sess_/);
}

const stands = (page, word) => page.locator("#summary .standing .pill", { hasText: word }).first().waitFor();

async function skips(page) {
  await page.goto(`${OPEN}/console`);
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.className), "skip");
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement.id), "main");
  await page.keyboard.press("/");
  assert.equal(await page.evaluate(() => document.activeElement.name), "status");
}

// Everything that can be acted on is reached by the tabulator, and seen to be.
async function walksByKeyboard(page, path) {
  await page.goto(path);
  const count = await page.evaluate(() => [...document.querySelectorAll("a, button, input, select, textarea, summary, pre[tabindex]")]
    .filter((one) => one.type !== "hidden" && one.checkVisibility()).length);
  const seen = new Set();
  for (let step = 0; step < count + 5; step += 1) {
    await page.keyboard.press("Tab");
    const place = await page.evaluate(() => {
      const one = document.activeElement;
      if (one === document.body) return null;
      const style = getComputedStyle(one);
      return { at: [...document.querySelectorAll("*")].indexOf(one), seen: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2 };
    });
    if (!place) break;
    assert.ok(place.seen, `no visible focus on element ${place.at} of ${path}`);
    seen.add(place.at);
  }
  assert.equal(seen.size, count, `${path}: what the tabulator reaches`);
}

// Texts that stand out too little from what is behind them (WCAG AA: 4.5 to 1).
async function isReadable(page) {
  const faint = await page.evaluate(() => {
    const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    const read = (colour) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1); return [...canvas.getImageData(0, 0, 1, 1).data]; };
    const light = ([r, g, b]) => [r, g, b].map((part) => part / 255).map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
      .reduce((sum, part, at) => sum + part * [0.2126, 0.7152, 0.0722][at], 0);
    const behind = (one) => { for (let at = one; at; at = at.parentElement) { const colour = read(getComputedStyle(at).backgroundColor); if (colour[3] === 255) return colour; } return [255, 255, 255, 255]; };
    const found = [];
    for (const one of document.querySelectorAll("body *")) {
      const own = [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
      if (!own || !one.checkVisibility() || one.closest(".skip, option, optgroup")) continue;
      const [text, back] = [light(read(getComputedStyle(one).color)), light(behind(one))];
      const contrast = (Math.max(text, back) + 0.05) / (Math.min(text, back) + 0.05);
      if (contrast < 4.5) found.push(`${one.tagName}.${one.className} ${contrast.toFixed(2)} ${one.textContent.trim().slice(0, 30)}`);
    }
    return found;
  });
  assert.deepEqual(faint, [], page.url());
}

async function pictures(page, name) {
  for (const scheme of ["light", "dark"]) {
    for (const [width, size] of [["wide", WIDE], ["narrow", NARROW]]) {
      await page.emulateMedia({ colorScheme: scheme, reducedMotion: "reduce" });
      await page.setViewportSize(size);
      const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(over <= 0, `${name} is ${over} pixels too wide at ${size.width}`);
      await isReadable(page);
      await page.screenshot({ path: join(SCREENSHOTS, `${name}-${width}-${scheme}.png`), fullPage: true });
    }
  }
  await page.emulateMedia({ colorScheme: "light" });
  await page.setViewportSize(WIDE);
}

async function watchesASession(page) {
  await begin(page, "slow", "How much did I spend on taxi? Do not stumble.");
  const address = page.url();
  await page.locator(".following:not([hidden])").waitFor();
  await page.evaluate(() => { window.kept = true; });
  await stands(page, "done");
  assert.equal(await page.evaluate(() => window.kept), true, "the page was not loaded anew");
  await page.locator("#fall > ol > li").nth(2).waitFor();
  await page.locator("#words", { hasText: "Two rides, 5000 tenge." }).waitFor();
  assert.equal(await page.locator(".following").count(), 0);
  assert.equal(await page.locator("#fall rect.failed").count(), 1, "the attempt that failed");
  for (const row of await page.locator("#fall > ol > li > details > summary").all()) assert.equal(await row.locator("rect").count() > 0, true);
  await page.locator("#fall li.tool summary").click();
  await page.locator("#fall li.tool pre", { hasText: "total_kzt" }).first().waitFor();
  await pictures(page, "session");
  return address;
}

async function approves(page) {
  await begin(page, "bank", "Заблокируй мою карту");
  const address = page.url();
  await stands(page, "awaits confirmation");
  await page.locator("#decisions article").waitFor();
  await pictures(page, "session-waiting");
  await page.goto(`${OPEN}/console/confirmations`);
  await pictures(page, "confirmations");
  await page.locator("article input[name=comment]").fill(EVIL);
  await page.locator("article button", { hasText: "Approve" }).click();
  await page.waitForURL(`${OPEN}/console/confirmations`);
  await page.goto(address);
  await stands(page, "done");
  await page.locator("#fall li.wait summary").click();
  await page.locator("#fall li.wait pre", { hasText: "window.hacked = 5" }).waitFor();
}

async function switchesACircuit(page) {
  await page.goto(`${OPEN}/console/circuits`);
  const row = page.locator("#circuits tr", { hasText: "tool/txn_sum" });
  await row.locator("select[name=action]").selectOption("force_open");
  await row.locator("select[name=for]").selectOption("10m");
  await row.locator("button").click();
  await row.locator(".pill", { hasText: "open" }).waitFor();
  assert.match(await row.innerText(), /held by C-001/);
  await pictures(page, "circuits");
  await begin(page, "bank", "Сколько я потратил на такси в сентябре?");
  await page.locator("#fall .pill", { hasText: "circuit_open" }).first().waitFor();
  await page.goto(`${OPEN}/console/circuits`);
  await row.locator("select[name=action]").selectOption("reset");
  await row.locator("button").click();
  await row.locator(".pill", { hasText: "closed" }).waitFor();
}

async function followsAConversation(page) {
  const addresses = [];
  for (const task of ["Сколько я потратил на такси в сентябре?", "А в августе?"]) {
    await begin(page, "bank", task, "taxi talk");
    addresses.push(page.url());
    await stands(page, "done");
  }
  await pictures(page, "session-follows");
  await page.locator("#summary div", { hasText: "Conversation" }).locator("a").last().click();
  await page.waitForURL(/conversation=taxi/);
  assert.equal(await page.locator("#rows a.id").count(), 2);
  await page.goto(addresses[1]);
  await page.locator("#summary a.id").click();
  await page.waitForURL(addresses[0]);
}

async function handlesAHandover(page) {
  await page.goto(`${OPEN}/console/handovers`);
  await page.getByText("Nothing is handed over here.").waitFor();
  await pictures(page, "handovers-empty");
  for (let count = 0; count < 2; count += 1) {
    await begin(page, "hasty", "Сколько я потратил на такси в сентябре?");
    await stands(page, "step limit");
  }
  await page.locator(".handed", { hasText: "session_ended" }).waitFor();
  await page.locator("nav .count", { hasText: "2" }).waitFor();
  await pictures(page, "session-handed-over");
  await page.locator(".handed a").click();
  await page.waitForURL(/handovers\?id=hand_/);
  await page.locator("#rows input[name=comment]").fill(EVIL);
  await page.locator("#rows button", { hasText: "Claim" }).click();
  await page.locator("#rows .pill", { hasText: "claimed" }).waitFor();
  assert.equal(await page.locator("#rows .mark", { hasText: "window.hacked = 5" }).count(), 1);
  assert.equal(await page.locator("nav .count").innerText(), "1");
  await page.getByText("All hand-overs").click();
  assert.equal(await page.locator("#rows tbody tr").count(), 2);
  await pictures(page, "handovers");
  await walksByKeyboard(page, `${OPEN}/console/handovers`);
  await page.goto(`${OPEN}/console/handovers?lang=ru`);
  await pictures(page, "handovers-ru");
  await page.goto(`${OPEN}/console/handovers?status=claimed&lang=en`);
  await page.locator("#rows button", { hasText: "Close" }).click();
  await page.waitForURL(`${OPEN}/console/handovers?status=claimed`);
  await page.getByText("Nothing is handed over here.").waitFor();
  await page.locator(".filters select").selectOption("closed");
  await page.locator(".filters button").click();
  await page.locator("#rows .pill", { hasText: "closed" }).waitFor();
}

async function staysWhole(page) {
  await begin(page, "hostile", EVIL);
  await stands(page, "done");
  for (const row of await page.locator("#fall > ol > li > details > summary").all()) {
    await row.focus();
    await page.keyboard.press("Enter");
  }
  await page.locator("#fall pre", { hasText: "</pre><svg onload=" }).first().waitFor();
  for (const text of ["<script>window.hacked = 1</script>", "<script>window.hacked = 5</script>", "[U+202E]gnp.exe", "[U+202E]txt"]) {
    await page.locator("main", { hasText: text }).waitFor();
  }
  const inside = "main script, main img, main style, main svg[onload], main [onerror], main a[href^='javascript']";
  assert.equal(await page.locator(inside).count(), 0);
  assert.equal(await page.evaluate(() => window.hacked), undefined);
  await pictures(page, "hostile");
}

async function worksWithoutScript(browser) {
  const page = await visitor(browser, { javaScriptEnabled: false });
  await begin(page, "bank", "hi");
  for (let tries = 0; tries < 200 && !(await page.locator("#summary .pill", { hasText: "done" }).count()); tries += 1) await page.reload();
  await stands(page, "done");
  await page.context().close();
}

async function speaksRussian(browser) {
  const page = await visitor(browser, { locale: "ru-RU" });
  await page.goto(`${OPEN}/console`);
  await page.locator("h1", { hasText: "Сессии" }).waitFor();
  await pictures(page, "sessions-ru");
  await page.getByText("English", { exact: true }).click();
  await page.locator("h1", { hasText: "Sessions" }).waitFor();
  await page.context().close();
}

// To a user hand-overs are not there, by the navigation or by their address.
async function findsNoHandovers(browser) {
  const page = await visitor(browser);
  await page.goto(`${LOGIN}/console/sign-in`);
  await page.locator("input[name=key]").fill(USER_KEY);
  await page.keyboard.press("Enter");
  await page.waitForURL(`${LOGIN}/console`);
  assert.deepEqual(await page.locator("nav a").allInnerTexts(), ["Sessions", "Confirmations", "Circuits"]);
  const answer = await page.goto(`${LOGIN}/console/handovers`);
  assert.equal(answer.status(), 404);
  await pictures(page, "not-there");
  await page.context().close();
}

async function signsInAndOut(browser) {
  const page = await visitor(browser);
  await page.goto(`${LOGIN}/console/circuits`);
  assert.match(page.url(), /sign-in\?next=/);
  await pictures(page, "sign-in");
  await page.keyboard.type("gbx_wrong");
  await page.keyboard.press("Enter");
  await page.getByRole("alert").waitFor();
  await page.locator("input[name=key]").fill(KEY);
  await page.keyboard.press("Enter");
  await page.waitForURL(`${LOGIN}/console/circuits`);
  assert.equal(await page.locator(".who").innerText(), "ops-1");
  const [cookie] = (await page.context().cookies()).filter((one) => one.name === "glassbox_console");
  assert.deepEqual([cookie.httpOnly, cookie.sameSite, cookie.path], [true, "Strict", "/console"]);
  assert.equal(await page.evaluate(() => document.cookie), "");
  await page.locator("button", { hasText: "Sign out" }).click();
  await page.waitForURL(/sign-in/);
  await page.goBack();
  await page.waitForURL(/sign-in/);
  await page.context().close();
}

setTimeout(() => { console.error("it takes too long", trouble); process.exit(1); }, 10 * PATIENCE).unref();

(async () => {
  mkdirSync(SCREENSHOTS, { recursive: true });
  const args = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args });
  try {
    const page = await visitor(browser);
    const step = async (name, work) => { await work; console.log(name); };
    await step("skips", skips(page));
    const session = watchesASession(page);
    await step("watches", session);
    await step("approves", approves(page));
    await step("switches", switchesACircuit(page));
    await step("follows a conversation", followsAConversation(page));
    await step("handles a hand-over", handlesAHandover(page));
    await step("stays whole", staysWhole(page));
    await page.goto(`${OPEN}/console`);
    await pictures(page, "sessions");
    for (const path of ["/console", "/console/circuits", "/console/confirmations"]) await walksByKeyboard(page, `${OPEN}${path}`);
    await step("walks by keyboard", walksByKeyboard(page, await session));
    await step("works without script", worksWithoutScript(browser));
    await step("speaks Russian", speaksRussian(browser));
    await step("finds no hand-overs", findsNoHandovers(browser));
    await step("signs in and out", signsInAndOut(browser));
    assert.deepEqual(trouble, []);
  } finally {
    await browser.close();
  }
  console.log("walked");
})().catch((error) => {
  console.error(error, trouble);
  process.exit(1);
});
