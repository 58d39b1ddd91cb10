"""The base LMs we train from scratch, as data.

All are a stock transformers class (OPT) with the traits of the paper's model: pre-LayerNorm, ReLU,
untied embeddings and no LayerNorm after the last block, so that `ffn` is the raw residual stream.
The one difference of architecture is OPT's learned positions where the paper's were sinusoidal.
Knows nothing of training loops."""

from dataclasses import asdict, dataclass
from typing import Any

from knnlm.errors import unknown
from knnlm.models.summed_embeddings import widen


@dataclass(frozen=True, kw_only=True)
class Preset:
    """Size and training recipe of a base LM."""

    name: str
    vocab_size: int
    width: int
    layers: int
    heads: int
    context: int
    dropout: float
    attention_dropout: float
    batch: int
    """Windows of `context` tokens in one update."""
    steps: int
    lr: float
    warmup: int
    weight_decay: float
    valid_every: int
    valid_tokens: int
    """At most this many validation tokens are scored while training."""
    keep: tuple[int, ...] = ()
    """Updates after which the model is kept as it is then, in checkpoints/<update>; each a multiple
    of valid_every."""

    embeddings: int = 1
    """Output embeddings for each word, whose probabilities are summed."""

    def settings(self) -> dict[str, Any]:
        """All fields by name, for records and fingerprints; `embeddings` only where there are
        several, so that what was trained before that field was there is still known."""
        return {
            name: value
            for name, value in asdict(self).items()
            if name != "embeddings" or value != 1
        }

    @property
    def ffn(self) -> int:
        """Width of the feed-forward layer."""
        return 4 * self.width


SMOKE = Preset(
    name="smoke",
    vocab_size=512,
    width=32,
    layers=2,
    heads=2,
    context=32,
    dropout=0.0,
    attention_dropout=0.0,
    batch=8,
    steps=40,
    lr=1e-2,
    warmup=5,
    weight_decay=0.0,
    valid_every=20,
    valid_tokens=2_000,
)
DEMO = Preset(
    name="demo",
    vocab_size=4096,
    width=128,
    layers=2,
    heads=4,
    context=128,
    dropout=0.1,
    attention_dropout=0.0,
    batch=16,
    steps=400,
    lr=4e-3,
    warmup=40,
    weight_decay=0.1,
    valid_every=100,
    valid_tokens=16_000,
)
LAPTOP = Preset(
    name="laptop",
    vocab_size=4096,
    width=256,
    layers=3,
    heads=4,
    context=256,
    dropout=0.3,
    attention_dropout=0.1,
    batch=8,
    steps=1_200,
    lr=2e-3,
    warmup=100,
    weight_decay=0.1,
    valid_every=100,
    valid_tokens=60_000,
    keep=(100, 400, 800),
)
# peers.md 1.2: 16 layers, 8 heads, d 1024, ffn 4096, 33,344 BPE, 3072 tokens a sample and 9216 an
# update, 286,000 updates, dropout 0.3/0.1. The optimiser is ours (AdamW); the paper's was NAG with
# a learning rate of 1.
PAPER = Preset(
    name="paper",
    vocab_size=33_344,
    width=1024,
    layers=16,
    heads=8,
    context=3072,
    dropout=0.3,
    attention_dropout=0.1,
    batch=3,
    steps=286_000,
    lr=3e-4,
    warmup=16_000,
    weight_decay=0.1,
    valid_every=2_000,
    valid_tokens=250_000,
)

PRESETS = {p.name: p for p in (SMOKE, DEMO, LAPTOP, PAPER)}


def preset(name: str) -> Preset:
    """The preset of that name."""
    if name not in PRESETS:
        raise unknown("preset", name, PRESETS)
    return PRESETS[name]


def new_model(p: Preset, vocab_size: int, end_of_text: int) -> Any:
    """An untrained model; its weights depend on torch's seed."""
    import transformers

    model = transformers.OPTForCausalLM(
        transformers.OPTConfig(
            vocab_size=vocab_size,
            hidden_size=p.width,
            word_embed_proj_dim=p.width,
            ffn_dim=p.ffn,
            num_hidden_layers=p.layers,
            num_attention_heads=p.heads,
            max_position_embeddings=p.context,
            dropout=p.dropout,
            attention_dropout=p.attention_dropout,
            activation_function="relu",
            do_layer_norm_before=True,
            _remove_final_layer_norm=True,
            tie_word_embeddings=False,
            bos_token_id=end_of_text,
            eos_token_id=end_of_text,
            pad_token_id=None,  # a padding id would freeze that row of the input embedding at zero
        )
    )
    return model if p.embeddings == 1 else widen(model, p.embeddings)
