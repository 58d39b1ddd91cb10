/* What is served: it is named at the top, and a passage of it is the first thing to see. */

"use strict";

const served = (() => {
  const { $, element } = page;
  const CANDIDATES = 24;
  const BEGINNING = 8; // words

  const state = { info: null };

  /** Ask what is served, and name it. */
  async function begin() {
    state.info = await (await server.ask("api/info")).json();
    const { model, entries, documents, version, base_model: lm } = state.info;
    const count = (value) => value.toLocaleString("en-US");
    $("about").replaceChildren(
      "Datastore ", element("b", {}, model),
      `: ${count(entries)} entries of ${count(documents)} documents. `,
      "Language model: ", element("b", {}, lm.name),
      ` (${lm.architecture}, ${size(lm.parameters)} parameters).`);
    $("version").textContent = `knnlm ${version}`;
    fillBeginning();
  }

  function size(parameters) {
    const [unit, name] = parameters >= 1e9 ? [1e9, "billion"] : [1e6, "million"];
    return `${Number((parameters / unit).toPrecision(2))} ${name}`;
  }

  /** A passage of the served text: of some, the one that is most like prose. */
  async function passage(signal) {
    const { entries } = state.info;
    const count = Math.min(CANDIDATES, entries);
    const places = Array.from({ length: count }, (_, n) => Math.floor((n + 0.5) * entries / count));
    const answer = await server.ask("api/entries", { entries: places }, signal);
    return (await answer.json()).entries
      .map((each) => ({ text: passages.whole(each), document: each.document }))
      .sort((a, b) => passages.quality(b.text) - passages.quality(a.text))[0];
  }

  /** What a visitor has begun to write stays. */
  const isTouched = () => $("text").value !== "" || document.activeElement === $("text");

  /** Explain a passage of the served text. Its own document has no vote: it would find itself. */
  function explainPassage(wanted) {
    if (isTouched()) return;
    explain.question("Opening the datastore …", async (signal) => {
      const { text, document: name } = await passage(signal);
      if (isTouched() || !text) return;
      $("text").value = text;
      const without = state.info.documents > 1 && state.info.metric ? { without: name } : {};
      await explain.score(text, { ...without, ...wanted }, signal);
      const { settings } = explain.state;
      $("source").textContent = `A passage of ${name}, a document of this datastore.`
        + (settings.without >= 0 ? " Its own document is left out, or it would find itself." : "")
        + " One passage says little; write a text of your own.";
    }, () => explainPassage(wanted));
  }

  /** A beginning for the second tab. */
  async function fillBeginning() {
    try {
      const { text } = await passage();
      const prompt = $("prompt");
      if (prompt.value || document.activeElement === prompt) return;
      prompt.value = text.split(/\s+/).slice(0, BEGINNING).join(" ");
    } catch { /* it stays empty, and the visitor writes one */ }
  }

  return { state, begin, explainPassage };
})();
