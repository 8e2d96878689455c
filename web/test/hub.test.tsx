// @vitest-environment happy-dom
// The whole page on a real hub, without a browser: tests/dashboard/test_page.py starts it and says where the hub is.
import { readFileSync } from "node:fs";
import { request } from "node:https";
import { expect, it, vi } from "vitest";

const { SHOAL_URL: url = "", SHOAL_CA: ca = "", SHOAL_TOKEN: token = "", SHOAL_POOR_TOKEN: poor = "", SHOAL_KUBECONFIG: kubeconfig = "" } = process.env;
const MANAGED = "../apis/infrastructure.cluster.x-k8s.io/v1alpha1/namespaces/default/managedclusters";
const HANG = 60_000;

/** What a browser's fetch does of all that, for answers that go on. */
function overHttps(path: string, options: RequestInit = {}): Promise<Response> {
  return new Promise((resolve, reject) => {
    const sent = request(
      new URL(path, `${url}/ui/`),
      { method: options.method ?? "GET", headers: options.headers as Record<string, string>, ca: readFileSync(ca) },
      (answer) => {
        const body = new ReadableStream<Uint8Array>({
          start(controller) {
            answer.on("data", (piece: Buffer) => controller.enqueue(new Uint8Array(piece)));
            answer.on("end", () => controller.close());
            answer.on("error", (error) => controller.error(error));
          },
        });
        resolve(new Response(body as never, { status: answer.statusCode }));
      },
    );
    sent.on("error", reject);
    options.signal?.addEventListener("abort", () => sent.destroy());
    sent.end(options.body as string | undefined);
  });
}

const text = (): string => document.body.textContent ?? "";
const shows = (words: string): Promise<void> => vi.waitFor(() => expect(text()).toContain(words), { timeout: HANG, interval: 50 });
const go = (page: string): void => {
  location.hash = `#/${page}`;
  dispatchEvent(new Event("hashchange"));
};
const press = (title: string): void => [...document.querySelectorAll("button")].find((each) => each.textContent === title)!.click();

async function login(given: string): Promise<void> {
  const field = document.querySelector("textarea")!;
  field.value = given;
  field.dispatchEvent(new Event("input", { bubbles: true }));
  await vi.waitFor(() => expect(document.querySelector<HTMLButtonElement>("[type=submit]")!.disabled).toBe(false));
  document.querySelector("form")!.dispatchEvent(new Event("submit", { bubbles: true, cancelable: true }));
}

it.skipIf(!url)("shows a hub to those who may see it, and follows it", { timeout: 4 * HANG }, async () => {
  vi.stubGlobal("fetch", overHttps);
  document.body.innerHTML = '<div id="app"></div>';
  await import("../src/main");
  await shows("Token, or a kubeconfig with one");

  await login("wrong");
  await shows("401 Unauthorized");
  expect(sessionStorage.length).toBe(0);

  await login(poor);
  for (const page of ["", "clusters", "placements", "nodes", "sync", "events"]) {
    go(page);
    await shows("403 Forbidden");
  }
  press("Log out");
  expect(sessionStorage.length).toBe(0);
  await shows("Token, or a kubeconfig with one");

  await login(readFileSync(kubeconfig, "utf8"));
  await shows("Live");
  go("clusters");
  await shows("There are no ManagedClusters");
  const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json" };
  const body = JSON.stringify({ apiVersion: "infrastructure.cluster.x-k8s.io/v1alpha1", kind: "ManagedCluster", metadata: { name: "east" }, spec: { nodes: 1 } });
  expect((await overHttps(MANAGED, { method: "POST", headers, body })).status).toBe(201);
  await shows("default/eastPending");
  go("");
  await shows("ManagedClusters1 0 running");
  go("o/managedclusters/default/east");
  await shows("infrastructure: embedded");
  expect((await overHttps(`${MANAGED}/east`, { method: "DELETE", headers })).status).toBe(200);
  await shows("There is no ManagedCluster with this name");
});
