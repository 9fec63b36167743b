/**
 * The door of a server with API keys: asks for a key once and keeps what the server gives for it, never the key.
 *
 * The secret is kept in the tab's session storage, so that a reload does not ask again; it opens conversations only, or watches
 * the server only.
 */
import { ConnectError } from "../sdk/problem.ts";
import { type ClientSecret, createClientSecret, readSecret, type SecretScope } from "../sdk/secret.ts";
import { make, setText } from "./dom.ts";
import { accessWords } from "./words.ts";

const STORED_AS = { sessions: "duplex.client_secret", dashboard: "duplex.dashboard_secret" } as const;
const LIFE_S = 7200;
/** A secret that ends sooner is not worth a try. */
const LEFT_S_MIN = 5;

export class Access {
  readonly #dialog = make("dialog", "access");
  readonly #box = make("input", "access-key");
  readonly #text = make("p", "notice-text");
  readonly #submit = make("button", "action", "Continue");
  readonly #url: string;
  readonly #scope: SecretScope;
  #secret: ClientSecret | null;

  /**
   * @param granted called with each new secret in place.
   * @param scope what the secrets are for.
   */
  constructor(url: string, granted: () => void, scope: SecretScope = "sessions") {
    this.#url = url;
    this.#scope = scope;
    this.#secret = readSecret(read(scope) ?? "");
    this.#build(granted);
  }

  get isOpen(): boolean {
    return this.#dialog.open;
  }

  /** The secret; null: there is none, or it has run out. */
  token(): string | null {
    return usable(this.#secret, Date.now() / 1000);
  }

  /** Ask for a key. */
  ask(): void {
    // Whoever asks has been refused with what there was.
    this.#secret = null;
    write(this.#scope, null);
    setText(this.#text, accessWords(null));
    if (!this.#dialog.open) this.#dialog.showModal();
  }

  #build(granted: () => void): void {
    const title = make("h2", "notice-title", "This server asks for a key");
    title.id = "access-title";
    this.#text.role = "status";
    this.#box.type = "password";
    this.#box.autocomplete = "off";
    this.#box.required = true;
    this.#box.placeholder = this.#box.ariaLabel = "API key";
    this.#box.dataset["testid"] = "access-key";
    this.#submit.dataset["testid"] = "access-submit";
    const cancel = make("button", "action", "Cancel");
    cancel.type = "button";
    cancel.addEventListener("click", () => this.#dialog.close());
    const form = make("form", "access-form", title, this.#text, this.#box, make("div", "notice-actions", this.#submit, cancel));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      void this.#exchange().then((given) => (given ? granted() : undefined));
    });
    this.#dialog.dataset["testid"] = "access";
    this.#dialog.setAttribute("aria-labelledby", title.id);
    this.#dialog.addEventListener("close", () => (this.#box.value = ""));
    this.#dialog.append(form);
    document.body.append(this.#dialog);
  }

  async #exchange(): Promise<boolean> {
    this.#submit.disabled = true;
    try {
      const secret = await createClientSecret({
        url: this.#url,
        key: this.#box.value.trim(),
        seconds: LIFE_S,
        ...(this.#scope === "sessions" ? {} : { scope: this.#scope }),
      });
      this.#secret = secret;
      write(this.#scope, JSON.stringify({ value: secret.value, expires_at: secret.expiresAt }));
      this.#dialog.close();
      return true;
    } catch (error) {
      if (!(error instanceof ConnectError)) throw error;
      setText(this.#text, accessWords(error.problem));
      this.#box.select();
      return false;
    } finally {
      this.#submit.disabled = false;
    }
  }
}

/** @param nowS seconds since 1970. */
export function usable(secret: ClientSecret | null, nowS: number): string | null {
  return secret !== null && secret.expiresAt - nowS >= LEFT_S_MIN ? secret.value : null;
}

function read(scope: SecretScope): string | null {
  try {
    return sessionStorage.getItem(STORED_AS[scope]);
  } catch (error) {
    if (error instanceof DOMException) return null; // storage is forbidden: the secret lives in memory alone
    throw error;
  }
}

function write(scope: SecretScope, text: string | null): void {
  try {
    if (text === null) sessionStorage.removeItem(STORED_AS[scope]);
    else sessionStorage.setItem(STORED_AS[scope], text);
  } catch (error) {
    if (!(error instanceof DOMException)) throw error; // as above
  }
}
