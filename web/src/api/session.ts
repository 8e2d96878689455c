import { parse } from "../model/yaml";

/** Who is logged in. The token is kept for this tab only, and goes with it. */
const KEY = "shoal-token";

export interface Who {
  name: string;
  groups: string[];
}

export const kept = (): string => sessionStorage.getItem(KEY) ?? "";
export const keep = (token: string): void => sessionStorage.setItem(KEY, token);
export const forget = (): void => sessionStorage.removeItem(KEY);

interface Named {
  name?: string;
  context?: { user?: string };
  user?: Record<string, unknown>;
}

/** The token of a kubeconfig's current context, or why there is none. */
export function tokenOf(kubeconfig: string): string {
  let config: Record<string, unknown>;
  try {
    config = parse(kubeconfig) as Record<string, unknown>;
  } catch (error) {
    throw new Error(`The kubeconfig cannot be parsed (${(error as Error).message}). Paste its token instead.`);
  }
  const named = (section: string): Named[] => (Array.isArray(config?.[section]) ? (config[section] as Named[]) : []);
  const contexts = named("contexts");
  const current = contexts.find((each) => each.name === config["current-context"]) ?? contexts[0];
  if (!current) throw new Error("The file has no context, so it is not a kubeconfig.");
  const user = named("users").find((each) => each.name === current.context?.user)?.user;
  if (!user) throw new Error(`The context “${current.name}” has no user.`);
  if (typeof user.token === "string" && user.token) return user.token.trim();
  if (user["client-certificate"] || user["client-certificate-data"]) {
    throw new Error(
      "The kubeconfig has a client certificate, which a web page cannot use. Create a token instead: " +
        "kubectl create token NAME -n NAMESPACE, for a ServiceAccount with the permissions you need.",
    );
  }
  if (user.exec || user["auth-provider"]) {
    throw new Error(
      "The kubeconfig gets its token from a program, which a web page cannot run. Run that program, or " +
        "kubectl create token NAME -n NAMESPACE, and paste the output.",
    );
  }
  if (user.tokenFile) throw new Error("The kubeconfig refers to a token file. Paste the content of that file.");
  throw new Error("The kubeconfig has no token.");
}

/** A token as people paste it, or a whole kubeconfig. */
export function tokenFrom(pasted: string): string {
  const text = pasted.trim();
  if (/^(apiVersion|kind|clusters|contexts|users|current-context|\{)/m.test(text)) return tokenOf(text);
  const token = text.replace(/^Authorization:\s*/i, "").replace(/^Bearer\s+/i, "");
  if (token === "" || /\s/.test(token)) throw new Error("A token must not contain spaces or line breaks.");
  return token;
}

/** Asks the hub who the token belongs to; throws what a person can act on. */
export async function whoami(token: string): Promise<Who> {
  let answer: Response;
  try {
    answer = await fetch("../apis/authentication.k8s.io/v1/selfsubjectreviews", {
      method: "POST",
      headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" },
      body: JSON.stringify({ apiVersion: "authentication.k8s.io/v1", kind: "SelfSubjectReview" }),
      credentials: "omit",
    });
  } catch {
    throw new Error("The hub does not answer.");
  }
  if (answer.status === 401) throw new Error("The hub rejected the token (401 Unauthorized).");
  const body = (await answer.json()) as { message?: string; status?: { userInfo?: { username: string; groups?: string[] } } };
  if (!answer.ok) throw new Error(body.message ?? `The hub answered ${answer.status}.`);
  return { name: body.status?.userInfo?.username ?? "", groups: body.status?.userInfo?.groups ?? [] };
}
