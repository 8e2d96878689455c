// A thousand clusters: who may see them, that they are followed, keys, screen readers, frames, both themes, a narrow window.
import { arrive, end, focused, frames, go, login, open, picture, please, press, says, tell, token, traces, until, url, violations } from "./session.mjs";

const { SHOAL_POOR_TOKEN: poor, SHOAL_CLUSTER: one } = process.env;
const PAGES = ["", "clusters", "placements", "nodes", "sync", "events"];
const DETAIL = `o/managedclusters/default/${one}`;
const titleOf = (path) => (path === "" ? "fleet" : path.startsWith("o/") ? "detail" : path);

const counted = (page) => page.evaluate(() => document.querySelectorAll(".tile dd")[1].firstChild.textContent);
const counts = (page, wanted) => until(page, (number) => document.querySelectorAll(".tile dd")[1]?.firstChild.textContent === number, wanted);

async function refusals() {
  const page = await open();
  const empty = await page.isDisabled("button[type=submit]");
  const bare = await page.evaluate(async () => (await fetch("./stream", { method: "POST", headers: { "Content-Type": "application/json" }, body: "{}" })).status);
  await login(page, "not-a-token");
  await until(page, () => document.querySelector("[role=alert]").textContent !== "");
  tell("refused", { empty, bare, said: await page.textContent("[role=alert]"), kept: await page.evaluate(() => sessionStorage.length), shown: await page.locator("nav, table, canvas").count() });
  tell("accessible", { page: "refused", theme: "light", violations: await violations(page) });
  await page.reload();
  await picture(page, "login");
  await page.context().close();

  const stranger = await open();
  await login(stranger, poor);
  for (const each of PAGES) {
    await go(stranger, each);
    await stranger.waitForSelector(".note");
    await until(stranger, () => !document.body.innerText.includes("Loading"));
    tell("stranger", {
      page: titleOf(each),
      rights: await stranger.locator(".note dd code").allTextContents(),
      rows: await stranger.locator("tbody tr, canvas, .card").count(),
      told: (await stranger.innerText("body")).includes("403 Forbidden"),
      leaked: (await stranger.innerText("body")).includes(one),
    });
    await picture(stranger, `stranger-${titleOf(each)}`);
  }
  tell("accessible", { page: "stranger", theme: "light", violations: await violations(stranger) });
  await stranger.context().close();
}

async function follows(page) {
  await counts(page, "1000");
  const before = await counted(page);
  const by = await please("apply");
  await counts(page, "1001");
  const after = await counted(page);
  await please("delete");
  await counts(page, "1000");
  await page.click("text=Table");
  await page.waitForSelector("tbody tr");
  await please("fail");
  await says(page, "Failed");
  await page.click("text=Map");
  tell("follows", { by, before, after, left: await counted(page) });
  await page.waitForTimeout(1500);
  tell("painted", {
    share: await until(page, () => {
      const canvas = document.querySelector("canvas");
      if (canvas.width === 0) return 0;
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      let inked = 0;
      for (let at = 3; at < data.length; at += 4) if (data[at] > 0) inked += 1;
      return inked / (data.length / 4);
    }),
  });
}

async function keys(page) {
  await page.reload();
  await page.waitForSelector("canvas");
  const order = [];
  await press(page, "Tab");
  const skip = await focused(page);
  await press(page, "Enter");
  const main = await page.evaluate(() => document.activeElement.id);
  await page.reload();
  await page.waitForSelector("canvas");
  for (let turn = 0; turn < 14; turn += 1) {
    await press(page, "Tab");
    order.push(await focused(page));
  }
  tell("tab", { skip, main, order });

  await page.focus("canvas");
  await press(page, "ArrowRight", "ArrowRight");
  const said = await until(page, () => document.querySelector(".map [aria-live]").textContent);
  await press(page, "Escape");
  const escaped = await until(page, () => document.querySelector(".map [aria-live]").textContent === "");
  await press(page, "ArrowRight", "Enter");
  await arrive(page, "o/");
  await page.waitForSelector(".yaml pre");
  tell("map keys", { said, escaped, opened: await page.textContent("h1"), focused: await page.evaluate(() => document.activeElement.id) });
  await press(page, "Escape");
  await arrive(page, "clusters");
  await page.waitForSelector("tbody a");
  const back = await page.textContent("h1");

  await press(page, "/");
  const search = await focused(page);
  await page.focus(".scroller");
  const walked = [];
  for (const key of ["ArrowDown", "ArrowDown", "ArrowUp", "PageDown", "End", "Home"]) {
    const old = await focused(page);
    await press(page, key);
    await until(page, (last) => { const at = document.activeElement; return at.matches("tbody a") && at.textContent !== last && at.getBoundingClientRect().top > 0; }, old);
    walked.push(await page.evaluate(() => Number(document.activeElement.closest("tr").getAttribute("aria-rowindex")) - 2));
  }
  const stops = await page.locator("tbody a[tabindex='0']").count();
  await press(page, "Escape");
  const out = await focused(page);
  await press(page, "ArrowDown", "Enter");
  await page.waitForSelector(".yaml pre");
  tell("list keys", { back, search, walked, stops, out, opened: await page.textContent("h1") });
}

async function pages(theme, width) {
  const page = await open({ scheme: theme, width, at: "#/clusters" });
  await page.waitForSelector("#token");
  tell("accessible", { page: "login", theme, width, violations: await violations(page) });
  await picture(page, `large-login-${theme}-${width}`);
  await login(page, token);
  await page.waitForSelector("tbody tr");
  for (const each of [...PAGES, DETAIL]) {
    await go(page, each);
    await until(page, () => document.querySelector("canvas, tbody tr, .empty, .yaml") && !document.body.innerText.includes("Loading"));
    // By phase: what is not well is what one looks for.
    if (each === "clusters") await page.click("th button:has-text('Phase')");
    await page.waitForTimeout(300);
    const name = `${titleOf(each)}${theme === "dark" ? "-dark" : ""}${width < 600 ? "-narrow" : ""}`;
    await picture(page, ["fleet", "clusters-dark"].includes(name) ? name : `large-${name}`);
    tell("accessible", { page: titleOf(each), theme, width, violations: await (theme === "dark" ? violations(page, ["cat.color"]) : violations(page)) });
    tell("fits", { page: titleOf(each), width, wide: await page.evaluate(() => document.scrollingElement.scrollWidth) });
  }
  tell("theme", { theme: await page.evaluate(() => document.documentElement.dataset.theme), wanted: theme });
  await page.context().close();
}

async function wheel(page, by) {
  for (let turn = 0; turn < 120; turn += 1) {
    await page.mouse.wheel(0, turn < 60 ? by : -by);
    await page.waitForTimeout(16);
  }
}

async function smooth(page) {
  await go(page, "clusters");
  await page.waitForSelector("tbody tr");
  await page.hover(".scroller");
  tell("frames", { of: "scrolling 1,000 clusters", ...(await frames(page, () => wheel(page, 700))) });
  tell("rows", { shown: await page.locator("tbody tr").count(), counted: await page.getAttribute("table", "aria-rowcount") });
  await go(page, "");
  await page.waitForSelector("canvas");
  await page.hover("canvas");
  tell("frames", { of: "zooming the map of 1,000 clusters", ...(await frames(page, () => wheel(page, -60))) });
}

await refusals();
const page = await open();
await login(page, token);
await page.waitForSelector("canvas");
await follows(page);
await keys(page);
await smooth(page);
await pages("light", 1360);
await pages("dark", 1360);
await pages("light", 400);
tell("traces", await traces(page, [token, poor]));
tell("policy", { of: (await page.request.get(`${url}/ui/`)).headers()["content-security-policy"] });
await page.click("text=Log out");
await page.waitForSelector("#token");
tell("left", { kept: await page.evaluate(() => sessionStorage.length) });
await end();
