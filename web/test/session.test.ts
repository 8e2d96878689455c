import { afterEach, describe, expect, it, vi } from "vitest";
import { tokenFrom, whoami } from "../src/api/session";

const config = (user: string): string =>
  `apiVersion: v1\nkind: Config\nclusters:\n- name: c\n  cluster:\n    server: https://hub\ncontexts:\n- name: x\n  context:\n    cluster: c\n    user: u\ncurrent-context: x\nusers:\n- name: other\n  user:\n    token: wrong\n- name: u\n  user:\n    ${user}\n`;

describe("what people paste", () => {
  it("takes a token, with or without its header", () => {
    expect(tokenFrom("  abc.def \n")).toBe("abc.def");
    expect(tokenFrom("Authorization: Bearer abc")).toBe("abc");
    expect(tokenFrom("Bearer abc")).toBe("abc");
  });
  it("takes the token of a kubeconfig's current context", () => {
    expect(tokenFrom(config("token: right"))).toBe("right");
  });
  it("says why other kubeconfigs cannot be used, and what helps", () => {
    expect(() => tokenFrom(config("client-certificate-data: abc"))).toThrow(/client certificate.*kubectl create token/);
    expect(() => tokenFrom(config("exec:\n      command: x"))).toThrow(/from a program/);
    expect(() => tokenFrom(config("tokenFile: /x"))).toThrow(/token file/);
    expect(() => tokenFrom(config("username: x"))).toThrow("The kubeconfig has no token.");
    expect(() => tokenFrom("apiVersion: v1\nkind: Pod\n")).toThrow("it is not a kubeconfig");
    expect(() => tokenFrom("two words")).toThrow("must not contain spaces");
  });
});

describe("who it is", () => {
  afterEach(() => vi.unstubAllGlobals());
  const answer = (status: number, body: unknown): void =>
    void vi.stubGlobal("fetch", vi.fn(async () => new Response(JSON.stringify(body), { status })));

  it("is what the hub says", async () => {
    answer(201, { status: { userInfo: { username: "jo", groups: ["g"] } } });
    expect(await whoami("t")).toEqual({ name: "jo", groups: ["g"] });
    const [url, options] = vi.mocked(fetch).mock.calls[0]!;
    expect(url).toBe("../apis/authentication.k8s.io/v1/selfsubjectreviews");
    expect((options!.headers as Record<string, string>).Authorization).toBe("Bearer t");
  });
  it("is nobody with a wrong token", async () => {
    answer(401, { message: "Unauthorized" });
    await expect(whoami("t")).rejects.toThrow("rejected the token");
  });
});
