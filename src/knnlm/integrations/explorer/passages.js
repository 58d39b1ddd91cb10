/* Stored passages, cut at the borders of words. The server sends so many tokens before and behind
   an entry; where the document goes on (`cut_before`, `cut_after`), the first or last word may be
   half of one. */

"use strict";

const passages = (() => {
  const SHOWN_BEFORE = 140;
  const SHOWN_AFTER = 60;
  const LONGEST_WORD = 24;

  /** The text before an entry, from the beginning of a word on. */
  function before(text, isCut = text !== "") {
    const kept = text.slice(-SHOWN_BEFORE);
    if (!isCut && kept === text) return text;
    const part = /^\S*(?=\s)/u.exec(kept)?.[0] ?? "";
    const rest = part.length <= LONGEST_WORD ? kept.slice(part.length) : kept;
    return /^\s/u.test(rest) ? `… ${rest.trimStart()}` : `…${rest}`;
  }

  /** The text behind an entry, up to the end of a word. */
  function after(text, isCut = text !== "") {
    const kept = text.slice(0, SHOWN_AFTER);
    if (!isCut && kept === text) return text;
    const part = /\s\S*$/u.exec(kept)?.[0] ?? "";
    return (part.length <= LONGEST_WORD ? kept.slice(0, kept.length - part.length) : kept) + " …";
  }

  /** A whole passage as a text of its own: from the beginning of a sentence, if one begins in
      its first half, to the end of a word. */
  function whole(passage) {
    let text = passage.before + passage.text + passage.after;
    if (passage.cut_before) {
      const sentence = text.search(/(?<=[.!?]\s+|\n\s*\n\s*)\p{Lu}/u);
      const word = text.search(/(?<=\s)\S/u);
      const isEarly = sentence >= 0 && sentence < text.length / 2;
      text = text.slice(isEarly ? sentence : Math.max(0, word));
    }
    return (passage.cut_after ? text.replace(/\s\S{0,24}$/u, "") : text).trim();
  }

  /** How good a text is to begin with: its words, more if it begins as a sentence does. */
  function quality(text) {
    const words = text.match(/(?<!\S)\p{L}+(?=[\s.,;:!?]|$)/gu)?.length ?? 0;
    return words + (/^\p{Lu}/u.test(text) ? 10 : 0);
  }

  return { before, after, whole, quality };
})();
