/** Objects of the API as they come: only the fields that are looked at have names here. */
export interface Condition {
  type: string;
  status: string;
  reason?: string;
  message?: string;
  lastTransitionTime?: string;
}

export interface OwnerReference {
  kind: string;
  name: string;
  uid: string;
}

export interface Metadata {
  name: string;
  namespace?: string;
  uid?: string;
  resourceVersion?: string;
  creationTimestamp?: string;
  deletionTimestamp?: string;
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
  ownerReferences?: OwnerReference[];
  generation?: number;
}

export interface KubeObject {
  apiVersion?: string;
  kind?: string;
  metadata: Metadata;
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  spec?: any;
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  status?: any;
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  [field: string]: any;
}

export interface Status {
  code?: number;
  reason?: string;
  message?: string;
}

/** One line of the stream. */
export interface Line {
  id?: string;
  type: "ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK" | "ERROR" | "END" | "TEXT" | "PING";
  object?: unknown;
}

export interface Watch {
  path: string;
  inside?: string;
  since?: string;
}

export const nameOf = (obj: KubeObject): string =>
  obj.metadata.namespace ? `${obj.metadata.namespace}/${obj.metadata.name}` : obj.metadata.name;

export function condition(obj: KubeObject | undefined, type: string): Condition | undefined {
  return (obj?.status?.conditions as Condition[] | undefined)?.find((each) => each.type === type);
}
