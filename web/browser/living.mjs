// A fleet that lives: replicas and where they are, bought nodes and their cost, events, a login that ends, a hub that is
// killed and comes back.
import { end, go, login, open, picture, please, says, tell, token, traces, until, violations } from "./session.mjs";

const { SHOAL_KUBECONFIG: kubeconfig, SHOAL_VIEWER_TOKEN: viewer } = process.env;
const texts = (page, selector) => page.locator(selector).allInnerTexts();

const guest = await open({ at: "#/clusters" });
await login(guest, viewer);
await says(guest, "default/east");
await please("withdraw");

const page = await open();
await page.setInputFiles("input[type=file]", kubeconfig);
await page.waitForSelector("canvas");
await page.waitForTimeout(1500);
await picture(page, "fleet-small");
tell("accessible", { page: "fleet", violations: await violations(page) });

await go(page, "placements");
await until(page, () => document.querySelectorAll(".card").length === 2 && document.querySelector(".card").innerText.includes("ready"));
tell("placement", { cards: await texts(page, ".card"), rules: await texts(page, "tbody tr") });
await picture(page, "placement");
tell("accessible", { page: "placements", violations: await violations(page) });

await go(page, "nodes/default/east");
await until(page, () => document.querySelectorAll(".inside tbody tr").length > 2 && document.querySelector(".tile:nth-child(4) dd").innerText.includes("%"));
tell("nodes", { tiles: await texts(page, ".tile dd"), clusters: await texts(page, ".scroller:not(.inside .scroller) tbody tr"), nodes: await texts(page, ".inside tbody tr"), bars: await page.locator(".inside [role=meter]").count() });
await picture(page, "nodes");
tell("accessible", { page: "nodes", violations: await violations(page) });

await go(page, "sync");
await says(page, "Negotiated APIs");
await page.waitForSelector("tbody tr");
tell("sync", { rows: await texts(page, "tbody tr") });
await picture(page, "sync-small");
tell("accessible", { page: "sync", violations: await violations(page) });

await go(page, "o/managedclusters/default/east");
await page.waitForSelector(".yaml pre");
await page.waitForSelector(".inside tbody tr");
tell("yaml", { text: await page.innerText(".yaml pre"), conditions: await texts(page, ".plain tbody th") });
await picture(page, "detail-small");
tell("accessible", { page: "detail", violations: await violations(page) });

await guest.waitForSelector("#token");
tell("withdrawn", { said: await guest.textContent("[role=alert]"), kept: await guest.evaluate(() => sessionStorage.length), shown: (await guest.innerText("body")).includes("default/east") });

await go(page, "clusters");
await page.waitForSelector("tbody tr");
await please("kill");
await says(page, "Not connected");
const meanwhile = await texts(page, "tbody tr");
await please("start");
await says(page, "Live");
await please("more");
await says(page, "default/north");
tell("restarted", { meanwhile: meanwhile.length, rows: (await texts(page, "tbody tr")).length, stays: (await page.locator("#token").count()) === 0 });
await go(page, "events");
await page.click("text=2 min");
await page.waitForSelector(".timeline rect");
tell("events", { bars: await page.locator(".timeline rect").count(), rows: await page.locator("tbody tr").count(), said: await page.innerText(".timeline figcaption") });
await picture(page, "events");
tell("accessible", { page: "events", violations: await violations(page) });

tell("traces", await traces(page, [token, viewer]));
await end();
