// What the server is asked, and the one stream of a page. Answers are read-only JSON under /api/v1.

const ROOT = "api/v1/";

/** What went wrong, in the server's own words: the cause and the next step. */
export class Problem extends Error {
  constructor({ title, detail, next_step: nextStep, status = 0 }) {
    super(detail || title);
    this.title = title;
    this.nextStep = nextStep;
    this.status = status;
  }
}

const AWAY = {
  title: "The gateway does not answer",
  detail: "No answer came from the address that this page was loaded from.",
  next_step: "See whether the process runs and still has --http. This page tries again by itself.",
};

/**
 * The answer to a path like ["topics", "orders"] with a query.
 * Raises Problem for what the server refuses (its status) and for no answer at all (status 0).
 */
export async function get(path, query = {}, signal = undefined) {
  let answer;
  try {
    answer = await fetch(address(path, query), { signal, headers: { accept: "application/json" } });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(AWAY);
  }
  let body;
  try {
    body = await answer.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    body = { title: `The gateway answered ${answer.status}`, detail: "What came was no JSON." };
  }
  if (!answer.ok) throw new Problem({ ...body, status: answer.status });
  return body;
}

export function address(path, query) {
  const said = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const text = new URLSearchParams(said).toString();
  return `${ROOT}${path.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

const KEYS_CHARACTERS = 6000;

/** Row keys as the server takes them in one parameter; of long names only as many as an address has room for. */
export function keys(names) {
  let text = "";
  for (const name of names.slice(0, 200)) {
    const more = `${text && ","}${encodeURIComponent(name)}`;
    // Each `%` of it becomes three characters of the address.
    if (encodeURIComponent(text + more).length > KEYS_CHARACTERS) break;
    text += more;
  }
  return text;
}

const EVENTS = ["now", "rows", "records", "skipped", "failed"];

/** The stream of what is shown: at most one is open, and none while nobody can see the page. */
export class Live {
  constructor({ receive, changed }) {
    this.receive = receive;
    this.changed = changed;
    this.source = null;
    this.query = null;
    this.paused = false;
    this.resume = null;
    document.addEventListener("visibilitychange", () => this.sync());
    // A page that is left for another one and kept by the browser must not hold a connection either.
    window.addEventListener("pagehide", () => this.close());
    window.addEventListener("pageshow", () => this.sync());
  }

  /** Show this from now on; null shows nothing that moves. */
  follow(query) {
    const same = JSON.stringify(query) === JSON.stringify(this.query);
    if (!same) {
      this.close();
      this.resume = null;
    }
    this.query = query;
    this.sync();
  }

  pause(paused) {
    this.paused = paused;
    this.sync();
  }

  close() {
    this.source?.close();
    this.source = null;
  }

  sync() {
    const wanted = this.query !== null && !this.paused && document.visibilityState === "visible";
    if (!wanted) {
      this.close();
      this.changed(this.paused ? "paused" : "live");
    } else if (this.source === null) {
      this.open();
    }
  }

  open() {
    const source = new EventSource(address(["events"], { ...this.query, resume: this.resume }));
    this.source = source;
    source.onopen = () => this.changed("live");
    source.onerror = () => {
      if (this.source !== source) return;
      this.changed("lost");
      // An answer that is no stream ends it for good; the browser tries again only when a link breaks.
      if (source.readyState === EventSource.CLOSED) {
        this.close();
        setTimeout(() => this.sync(), 2000);
      }
    };
    for (const name of EVENTS) {
      source.addEventListener(name, (event) => {
        if (this.source !== source) return;
        if (event.lastEventId) this.resume = event.lastEventId;
        this.receive(name, JSON.parse(event.data));
      });
    }
  }
}
