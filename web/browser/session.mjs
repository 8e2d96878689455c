// A real browser on a hub. tests/browser starts these programs, says where the hub is, and judges what they report:
// one JSON object a line. What a person would see late is reported late; nothing is done twice.
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";

const { SHOAL_CHROMIUM: program, SHOAL_SCREENSHOTS: pictures, SHOAL_SCREENSHOTS_ALL: all } = process.env;
export const { SHOAL_URL: url, SHOAL_TOKEN: token } = process.env;
/** A hang guard, not a measure. */
const WAIT = 90_000;
const KEPT = ["fleet", "clusters-dark", "placement", "nodes", "events", "login"];
const RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
if (pictures) mkdirSync(pictures, { recursive: true });

export const tell = (what, content) => console.log(JSON.stringify({ what, ...content }));

const answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

/** Something that happens outside of the browser, done by whoever started this. */
export async function please(deed) {
  tell("please", { deed });
  return JSON.parse((await answers.next()).value);
}

export const browser = await chromium.launch({ executablePath: program, args: ["--no-sandbox"] });
export const problems = [];
const requests = [];
let streams = 0;
let mostStreams = 0;

export async function open({ scheme = "light", width = 1360, height = 850, at = "" } = {}) {
  const context = await browser.newContext({ ignoreHTTPSErrors: true, colorScheme: scheme, viewport: { width, height } });
  const page = await context.newPage();
  page.setDefaultTimeout(WAIT);
  page.on("pageerror", (error) => problems.push(String(error)));
  page.on("console", (message) => {
    // Of a refused login, and of a hub that is away, the browser speaks itself.
    const told = message.text();
    if (message.type() === "error" && !/\b401\b|ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED|ERR_EMPTY_RESPONSE|ERR_CONNECTION_RESET/.test(told)) problems.push(told);
  });
  const ends = new Set();
  page.on("request", (request) => {
    requests.push({ url: request.url(), page: request.isNavigationRequest() });
    if (!request.url().endsWith("/ui/stream")) return;
    ends.add(request);
    streams = ends.size;
    mostStreams = Math.max(mostStreams, streams);
  });
  for (const end of ["requestfinished", "requestfailed"]) page.on(end, (request) => ends.delete(request));
  await page.goto(`${url}/ui/${at}`);
  return page;
}

export async function login(page, given) {
  await page.fill("#token", given);
  await page.click("button[type=submit]");
}

const TITLES = { "": "Fleet", clusters: "Clusters", placements: "Placement", nodes: "Nodes", sync: "Sync", events: "Events" };

/** Until the page is that one: the one before has headings and rows, too. */
export const arrive = (page, path) =>
  until(
    page,
    (title) => document.title.startsWith(title) && document.querySelector("main h1") !== null,
    path.startsWith("o/") ? "ManagedCluster " : TITLES[path.split("/")[0]],
  );

export const go = async (page, path) => {
  await page.goto(`${url}/ui/#/${path}`);
  await arrive(page, path);
};

/** Until it is so. Not page.waitForFunction: that wants eval, which the page's policy forbids. */
export async function until(page, look, given) {
  const end = Date.now() + WAIT;
  for (;;) {
    const found = await page.evaluate(look, given);
    if (found) return found;
    if (Date.now() > end) throw new Error(`never came true: ${look} with ${JSON.stringify(given)}; the page says: ${(await page.innerText("body")).slice(0, 1500)}`);
    await page.waitForTimeout(40);
  }
}

export const says = (page, words) => until(page, (wanted) => document.body.innerText.includes(wanted), words);

export async function picture(page, name) {
  if (!pictures || !(all || KEPT.includes(name))) return;
  const size = page.viewportSize();
  // Smaller: a thousand dots are many bytes.
  if (name === "fleet") await page.setViewportSize({ width: 1000, height: 640 });
  await page.waitForTimeout(1000);
  await page.screenshot({ path: `${pictures}/dashboard-${name}.png`, animations: "disabled" });
  await page.setViewportSize(size);
}

/** By axe's rules: all of them, or those about colours. */
export async function violations(page, tags = RULES) {
  await page.evaluate(axe);
  const found = await page.evaluate((wanted) => window.axe.run(document, { runOnly: wanted }), tags);
  return found.violations.map((each) => `${each.id}: ${each.nodes.map((node) => node.target.join(" ")).join("; ")}`);
}

/** What has the focus, as a person would name it. */
export const focused = (page) =>
  page.evaluate(() => {
    const at = document.activeElement;
    if (!at || at === document.body) return "nothing";
    return at.getAttribute("aria-label") ?? (at.labels?.[0] ?? at).textContent.trim();
  });

export const press = async (page, ...keys) => {
  for (const key of keys) await page.keyboard.press(key);
};

/** Times between two frames while something moves. */
export async function frames(page, move) {
  await page.evaluate(() => {
    window.shoalFrames = [];
    let last = performance.now();
    const step = (now) => {
      window.shoalFrames.push(now - last);
      last = now;
      window.shoalFrame = requestAnimationFrame(step);
    };
    window.shoalFrame = requestAnimationFrame(step);
  });
  await move();
  const times = await page.evaluate(() => {
    cancelAnimationFrame(window.shoalFrame);
    return window.shoalFrames.slice(2);
  });
  times.sort((a, b) => a - b);
  const at = (share) => Math.round(times[Math.min(times.length - 1, Math.floor(times.length * share))] * 10) / 10;
  return { frames: times.length, p50: at(0.5), p95: at(0.95), longest: at(1) };
}

/** Where the browser went, and what it keeps. */
export async function traces(page, secrets) {
  const kept = await page.evaluate(() => JSON.stringify(localStorage) + document.cookie);
  return {
    elsewhere: [...new Set(requests.map((each) => new URL(each.url)).filter((each) => each.protocol !== "data:" && each.origin !== url).map(String))],
    inUrls: requests.filter((each) => secrets.some((secret) => each.url.includes(secret))).length,
    inStorage: secrets.some((secret) => kept.includes(secret)),
    mostStreams,
  };
}

export async function end() {
  tell("problems", { problems });
  await browser.close();
  process.exit(0);
}
