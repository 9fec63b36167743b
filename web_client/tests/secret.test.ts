import { afterEach, describe, expect, it, vi } from "vitest";
import { usable } from "../page/access.ts";
import { fetchInfo } from "../page/model.ts";
import { accessWords } from "../page/words.ts";
import { ConnectError, type Problem } from "../sdk/problem.ts";
import { createClientSecret, readSecret } from "../sdk/secret.ts";

const OPTIONS = { url: "http://server.example/v1/realtime/client_secrets", key: "key-0123456789abcdef", seconds: 600 };

afterEach(() => vi.unstubAllGlobals());

function answering(response: Response | Error): ReturnType<typeof vi.fn> {
  const fetch = vi.fn(() => (response instanceof Error ? Promise.reject(response) : Promise.resolve(response)));
  vi.stubGlobal("fetch", fetch);
  return fetch;
}

async function problemOf(work: Promise<unknown>): Promise<Problem> {
  const error: unknown = await work.then(() => null, (reason: unknown) => reason);
  if (!(error instanceof ConnectError)) throw new Error(`no ConnectError: ${String(error)}`);
  return error.problem;
}

describe("createClientSecret", () => {
  it("shows the key in a header and nowhere else", async () => {
    const fetch = answering(Response.json({ value: "ek_1", expires_at: 700, session: {} }));
    expect(await createClientSecret(OPTIONS)).toEqual({ value: "ek_1", expiresAt: 700 });
    const [url, init] = fetch.mock.calls[0] as [string, RequestInit];
    expect(init.headers).toMatchObject({ Authorization: `Bearer ${OPTIONS.key}` });
    expect(`${url} ${String(init.body)}`).not.toContain(OPTIONS.key);
    expect(JSON.parse(String(init.body))).toEqual({ expires_after: { anchor: "created_at", seconds: 600 } });
  });

  it.each([
    [new Response("", { status: 401 }), "access"],
    [new Response("", { status: 403 }), "access"],
    [new Response("", { status: 429 }), "refused"],
    [new Response("<html>", { status: 200 }), "refused"],
    [new TypeError("network"), "unreachable"],
  ])("says what is wrong", async (response, kind) => {
    answering(response);
    expect((await problemOf(createClientSecret(OPTIONS))).kind).toBe(kind);
  });

  it("takes what no header takes for a wrong key", async () => {
    answering(new TypeError("not a ByteString"));
    expect((await problemOf(createClientSecret({ ...OPTIONS, key: "ключ" }))).kind).toBe("access");
  });
});

describe("readSecret", () => {
  it.each(["", "null", "[]", "{", '{"value":1,"expires_at":2}', '{"value":"ek_1"}'])("takes no %s", (json) => {
    expect(readSecret(json)).toBeNull();
  });
});

describe("usable", () => {
  it("is a secret until shortly before it ends", () => {
    const secret = { value: "ek_1", expiresAt: 100 };
    expect(usable(secret, 95)).toBe("ek_1");
    expect(usable(secret, 95.1)).toBeNull();
    expect(usable(null, 0)).toBeNull();
  });
});

describe("fetchInfo", () => {
  it("sends the secret, and tells when another is wanted", async () => {
    const fetch = answering(Response.json({ model: { name: "sim" } }));
    expect(await fetchInfo("/v1/duplex/info", "ek_1")).toMatchObject({ model: "sim" });
    expect(fetch.mock.calls[0]?.[1]).toEqual({ headers: { Authorization: "Bearer ek_1" } });
    answering(new Response("", { status: 401 }));
    expect(await fetchInfo("/v1/duplex/info", null)).toBe("access");
  });
});

describe("accessWords", () => {
  it("says something else of each outcome", () => {
    const outcomes = [null, { kind: "access" }, { kind: "unreachable" }, { kind: "timeout" }] as const;
    expect(new Set(outcomes.map(accessWords)).size).toBe(outcomes.length);
  });
});
