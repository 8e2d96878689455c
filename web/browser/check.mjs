// The dashboard in a real browser. Started by tests/browser, which says where the hub is and judges what is reported:
// one JSON object a line. Nothing is retried here: what a person would see late is reported late.
import { readFileSync } from "node:fs";
import { mkdirSync } from "node:fs";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

const { SHOAL_URL: url, SHOAL_TOKEN: token, SHOAL_POOR_TOKEN: poor, SHOAL_CHROMIUM: program, SHOAL_SCREENSHOTS: pictures } = process.env;
const PAGES = ["", "clusters", "placements", "nodes", "sync", "events", "o/managedclusters/default/cluster-0001"];
const WAIT = 30_000;

const tell = (what, content) => console.log(JSON.stringify({ what, ...content }));
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
if (pictures) mkdirSync(pictures, { recursive: true });

const browser = await chromium.launch({ executablePath: program, args: ["--no-sandbox", "--disable-gpu"] });
const problems = [];

async function open(scheme = "light") {
  const context = await browser.newContext({ ignoreHTTPSErrors: true, colorScheme: scheme, viewport: { width: 1360, height: 850 } });
  const page = await context.newPage();
  page.setDefaultTimeout(WAIT);
  page.on("pageerror", (error) => problems.push(String(error)));
  page.on("console", (message) => {
    // A refused login is an answer of 401, and the browser says so itself.
    if (message.type() === "error" && !message.text().includes("401")) problems.push(message.text());
  });
  await page.goto(`${url}/ui/`);
  return page;
}

async function login(page, with_) {
  await page.fill("#token", with_);
  await page.click("button[type=submit]");
}

async function picture(page, name) {
  if (pictures) await page.screenshot({ path: `${pictures}/${name}.png` });
}

async function violations(page) {
  await page.evaluate(axe);
  const found = await page.evaluate(() => window.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"] }));
  return found.violations.map((each) => `${each.id}: ${each.nodes.map((node) => node.target.join(" ")).join("; ")}`);
}

async function frames(page, move) {
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
  return { frames: times.length, p50: at(0.5), p95: at(0.95), worst: at(1) };
}

const page = await open();
await login(page, "not-a-token");
await page.waitForFunction(() => document.querySelector("[role=alert]").textContent !== "");
tell("refused", { said: await page.textContent("[role=alert]"), kept: await page.evaluate(() => sessionStorage.length) });
tell("accessible", { page: "login", violations: await violations(page) });
await picture(page, "dashboard-login");

const stranger = await open();
await login(stranger, poor);
for (const each of PAGES.slice(0, 6)) {
  await stranger.goto(`${url}/ui/#/${each}`);
  await stranger.waitForSelector(".note");
  tell("stranger", { page: each, notes: await stranger.locator(".note").count(), rows: await stranger.locator("tbody tr").count() });
}
await stranger.context().close();

await login(page, token);
await page.waitForSelector("canvas");
const count = () => page.evaluate(() => Number(document.querySelectorAll(".tile dd")[1].firstChild.textContent));
await page.waitForFunction(() => document.querySelectorAll(".tile dd")[1]?.textContent.startsWith("1000"));
const before = await count();
const made = await page.evaluate(async (bearer) => {
  const answer = await fetch("../apis/infrastructure.cluster.x-k8s.io/v1alpha1/namespaces/default/managedclusters", {
    method: "POST",
    headers: { Authorization: `Bearer ${bearer}`, "Content-Type": "application/json" },
    body: JSON.stringify({ apiVersion: "infrastructure.cluster.x-k8s.io/v1alpha1", kind: "ManagedCluster", metadata: { name: "newcomer" }, spec: {} }),
  });
  return answer.status;
}, token);
await page.waitForFunction((old) => Number(document.querySelectorAll(".tile dd")[1].firstChild.textContent) === old + 1, before);
tell("follows", { created: made, before, after: await count() });
tell("painted", {
  share: await page.evaluate(() => {
    const canvas = document.querySelector("canvas");
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    let inked = 0;
    for (let at = 3; at < data.length; at += 4) if (data[at] > 0) inked += 1;
    return inked / (data.length / 4);
  }),
});

await page.focus("canvas");
await page.keyboard.press("ArrowRight");
await page.keyboard.press("ArrowRight");
const said = await page.textContent(".map [aria-live]");
await page.keyboard.press("Enter");
await page.waitForSelector(".yaml pre");
tell("keyboard", { said, opened: await page.textContent("h1"), focused: await page.evaluate(() => document.activeElement?.id) });
await page.reload();
await page.waitForSelector(".yaml pre");
await page.keyboard.press("Tab");
tell("skip", { first: await page.evaluate(() => document.activeElement?.className) });

for (const each of PAGES) {
  await page.goto(`${url}/ui/#/${each}`);
  await page.waitForSelector("main h1");
  await page.waitForTimeout(1200);
  const name = each.split("/")[0] || "fleet";
  await picture(page, `dashboard-${name === "o" ? "detail" : name}`);
  tell("accessible", { page: name, violations: await violations(page) });
}

await page.goto(`${url}/ui/#/clusters`);
await page.waitForSelector("tbody tr");
await page.hover(".scroller");
tell("frames", { of: "scrolling 1,000 clusters", ...(await frames(page, async () => {
  for (let turn = 0; turn < 60; turn += 1) {
    await page.mouse.wheel(0, turn < 30 ? 900 : -900);
    await page.waitForTimeout(16);
  }
})) });
tell("rows", { shown: await page.locator("tbody tr").count(), counted: await page.getAttribute("table", "aria-rowcount") });
await page.goto(`${url}/ui/#/`);
await page.waitForSelector("canvas");
await page.hover("canvas");
tell("frames", { of: "zooming the map of 1,000 clusters", ...(await frames(page, async () => {
  for (let turn = 0; turn < 60; turn += 1) {
    await page.mouse.wheel(0, turn < 30 ? -120 : 120);
    await page.waitForTimeout(16);
  }
})) });

await page.click("text=Log out");
await page.waitForSelector("#token");
tell("left", { kept: await page.evaluate(() => sessionStorage.length) });

const night = await open("dark");
await login(night, token);
await night.waitForSelector("canvas");
await night.waitForTimeout(1500);
await picture(night, "dashboard-fleet-dark");
tell("dark", { theme: await night.evaluate(() => document.documentElement.dataset.theme), violations: await violations(night) });
tell("problems", { problems });
await browser.close();
