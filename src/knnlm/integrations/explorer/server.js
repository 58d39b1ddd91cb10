/* The server behind the page: questions, answers as they are written, and refusals. */

"use strict";

const server = (() => {
  const { element, button, say } = page;

  class Refusal extends Error {
    constructor(status, message) {
      super(message);
      this.status = status;
    }
  }

  /** The answer to a question: a POST if there is a body. */
  async function ask(path, body, signal) {
    const headers = { "content-type": "application/json" };
    const token = sessionStorage.getItem("knnlm-token");
    if (token) headers.authorization = `Bearer ${token}`;
    const sent = body === undefined ? {} : { method: "POST", body: JSON.stringify(body) };
    let answer;
    try {
      answer = await fetch(path, { headers, signal, ...sent });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Refusal(0, "The server does not answer. Is it still running?");
    }
    if (answer.ok) return answer;
    const told = await answer.json().catch(() => null);
    const message = told?.error?.message ?? `The server answered ${answer.status}.`;
    throw new Refusal(answer.status, message);
  }

  /** Ask for a continuation and take each part of it as it comes. */
  async function stream(body, signal, take) {
    const answer = await ask("v1/completions", body, signal);
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      rest += value;
      const events = rest.split("\n\n");
      rest = events.pop();
      for (const event of events) {
        const data = event.replace(/^data: /, "");
        if (data === "[DONE]") return;
        const parsed = JSON.parse(data);
        if (parsed.error) throw new Refusal(parsed.status ?? 500, parsed.error.message);
        for (const choice of parsed.choices) take(choice);
      }
    }
  }

  /** Show what went wrong; where a token is needed, ask for it. */
  function tellError(id, error, again) {
    if (error.name === "AbortError") return;
    if (error.status !== 401) {
      const busy = error.status === 429 ? " The server is busy: try again in a moment." : "";
      say(id, error.message + busy, true);
      return;
    }
    const label = "The token of this server";
    const field = element("input", { type: "password", "aria-label": label, autocomplete: "off" });
    const use = button("Use it", () => {
      sessionStorage.setItem("knnlm-token", field.value);
      again();
    });
    say(id, element("span", {}, "This server asks for a token: ", field, " ", use), true);
  }

  return { ask, stream, tellError };
})();
