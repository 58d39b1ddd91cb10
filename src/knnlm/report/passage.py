"""The passage of a page: text coloured by what retrieval changed, and the data of its panel.

Colours and title texts stand in the HTML itself; the panel is an extra that `static/page.js` fills
from the JSON. It knows nothing of the rest of the page.
"""

import html
import json
import math
from typing import Any

from knnlm.evaluation.explanation import ExplainedToken, Passage, RetrievedNeighbor
from knnlm.report import formats, words

CLIP = 2.0  # nats at which the colour is full
_BEFORE = 160  # characters of a retrieved context that are shown


def section(passage: Passage) -> str:
    """The whole section, with its data block."""
    source = f"{html.escape(passage.document)} ({html.escape(passage.setting)})"
    if not passage.tokens:
        return f"<section><h2>Token by token</h2><p>{source}: the passage is empty.</p></section>"
    return f"""<section aria-labelledby="passage-title">
<h2 id="passage-title">Token by token</h2>
<p>From unseen text: {source}. {html.escape(words.passage_text(passage))} A token can gain without
limit, but lose at most −ln(1−λ): the language model always keeps its 1−λ.</p>
{_legend()}
<div class="reader">
<div class="passage" id="passage" role="group" aria-label="The passage">{_tokens(passage)}</div>
<aside class="panel" id="panel" aria-live="polite" aria-label="The chosen token" hidden></aside>
</div>
<script type="application/json" id="passage-data">{_data(passage)}</script>
</section>"""


def shade(gain: float) -> str:
    """The attributes that colour a gain: direction as a class, size as a share of full colour."""
    share = min(abs(gain) / CLIP, 1.0)
    direction = "up" if gain > 0 else "down" if gain < 0 else "same"
    return f'class="token {direction}" style="--gain:{share:.3f}"'


def _legend() -> str:
    steps = (-CLIP, -CLIP / 2, 0.0, CLIP / 2, CLIP)
    swatches = "".join(f"<span {shade(step)}>{formats.signed(step, 0)}</span>" for step in steps)
    return (
        f'<p class="scale"><span>retrieval hurt</span> <span class="swatches">{swatches}</span> '
        f"<span>retrieval helped</span> <small>change of ln P in nats; one nat is a factor of 2.7; "
        f"full colour from ±{CLIP:g}</small></p>"
    )


def _tokens(passage: Passage) -> str:
    return "".join(_token(place, token) for place, token in enumerate(passage.tokens))


def _token(place: int, token: ExplainedToken) -> str:
    """One focusable token; CSS draws the sign for a line end, so that copied text has none."""
    text = html.escape(token.text.replace("\r\n", "\n").replace("\r", "\n"))
    shown = text.replace("\n", '<i class="newline"></i>\n')
    name = "" if token.text.strip() else ' aria-label="white space"'
    title = html.escape(words.token_text(token))
    return f'<span id="t{place}" {shade(words.gain(token))} tabindex="0" title="{title}"{name}>{shown}</span>'


def _data(passage: Passage) -> str:
    """The panel's JSON, with every character that could end or open markup written as an escape."""
    gains = [words.gain(token) for token in passage.tokens]
    data = {
        "start": gains.index(max(gains)),  # open the panel where there is most to see
        "tokens": [_token_data(token) for token in passage.tokens],
    }
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _token_data(token: ExplainedToken) -> dict[str, Any]:
    strongest = sorted(token.neighbors, key=lambda hit: -hit.weight)
    return {
        "text": formats.visible(token.text),
        "gain": words.gain_text(token),
        "parts": [
            _part("LM", token.lm_logprob),
            _part("kNN", token.component_logprob),
            _part("", token.mixed_logprob),
        ],
        "hits": [_hit_data(hit) for hit in strongest],
    }


def _part(subscript: str, logprob: float) -> dict[str, Any]:
    return {
        "of": subscript,
        "text": formats.probability(logprob),
        "share": round(math.exp(logprob), 4),
    }


def _hit_data(hit: RetrievedNeighbor) -> dict[str, Any]:
    return {
        "before": formats.visible(formats.tail(hit.before, _BEFORE)),
        "token": formats.visible(hit.token),
        "weight": formats.percent(hit.weight),
        "share": round(hit.weight, 4),
        "document": hit.document,
        "target": hit.is_target,
    }
