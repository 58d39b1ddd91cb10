/* Letters that take several tokens. Such a letter comes whole with the last of its tokens, the
   text of those before it is empty: all texts, one behind the other, are the text. */

"use strict";

const letters = (() => {
  /** For each token of a text the letter that it is a part of, `{ letter, place, count }`, or null
      if it is no part. The letter is null where the text ends before it does. */
  function parts(texts) {
    const found = texts.map(() => null);
    for (let start = 0; start < texts.length; start++) {
      if (texts[start] !== "") continue;
      let last = start;
      while (last < texts.length && texts[last] === "") last++;
      const letter = last < texts.length ? firstLetter(texts[last]) : null;
      const end = Math.min(last, texts.length - 1);
      // one byte spells an ASCII letter: tokens before it are empty for another reason
      if (letter === null || letter > "\u007f") {
        for (let n = start; n <= end; n++) {
          found[n] = { letter, place: n - start + 1, count: end - start + 1 };
        }
      }
      start = end;
    }
    return found;
  }

  /** The first letter that is no white space; null for one that was never finished. */
  function firstLetter(text) {
    const [letter = " "] = text.trimStart();
    return letter === "\ufffd" ? null : letter;
  }

  /** Of a single token, out of a text: whether it spells no whole letter. */
  const isPiece = (text) => /^\ufffd*$/.test(text);

  return { parts, isPiece };
})();

if (typeof module !== "undefined") module.exports = letters;
