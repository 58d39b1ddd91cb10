"""The base LMs that we train from scratch, as data.

All are a stock transformers class (OPT) with the traits of the paper's model: pre-LayerNorm, ReLU,
untied embeddings and no LayerNorm after the last block, so that `ffn` is the raw residual stream.
The one difference in architecture is the positions: OPT learns them, the paper's are sinusoidal.
"""

from dataclasses import asdict, dataclass
from typing import Any

from knnlm.errors import unknown


@dataclass(frozen=True, kw_only=True)
class Preset:
    """Size and training recipe of a base LM.

    Attributes:
        name: What it is called.
        vocab_size: The most vocabulary entries of its tokenizer.
        width: D, the size of a hidden state.
        layers: How many blocks.
        heads: Attention heads of a block.
        context: The longest input, in tokens; training windows are this long.
        dropout: On embeddings and the residual stream.
        attention_dropout: On attention weights.
        batch: Windows of `context` tokens in one update.
        steps: Updates.
        lr: The highest learning rate.
        warmup: Updates until the learning rate is highest.
        weight_decay: Of AdamW.
        valid_every: Updates between two measurements on the validation text.
        valid_tokens: At most this many validation tokens are scored while training.
        keep: Updates after which the model is kept as it is then, in checkpoints/<update>; each a
            multiple of `valid_every`.
        embeddings: Output embeddings per vocabulary entry, whose probabilities are summed.

    Example:
        >>> from dataclasses import replace
        >>> from knnlm.models import DEMO
        >>> longer = replace(DEMO, name="longer", steps=800)
        >>> train("docs/", "model", preset=longer)    # doctest: +SKIP
    """

    name: str
    vocab_size: int
    width: int
    layers: int
    heads: int
    context: int
    dropout: float
    attention_dropout: float
    batch: int
    steps: int
    lr: float
    warmup: int
    weight_decay: float
    valid_every: int
    valid_tokens: int
    keep: tuple[int, ...] = ()
    embeddings: int = 1

    def settings(self) -> dict[str, Any]:
        """All fields by name, for records and fingerprints.

        `embeddings` is left out if it is 1, so that models trained before there was such a field
        keep their fingerprints.
        """
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
# The size, batch, dropout and number of updates are those of the paper's code. The optimizer is
# ours (AdamW); theirs was Nesterov's accelerated gradient with a learning rate of 1.
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


def preset_named(name: str) -> Preset:
    """Look up a preset.

    Args:
        name: One of "smoke", "demo", "laptop" and "paper".

    Raises:
        UsageError: There is no preset of that name.
    """
    if name not in PRESETS:
        raise unknown("preset", name, PRESETS)
    return PRESETS[name]


def new_model(preset: Preset, vocab_size: int, end_of_text: int) -> Any:
    """Make an untrained model; its weights depend on torch's seed.

    Args:
        preset: Its size.
        vocab_size: How many vocabulary entries its tokenizer has, which may be fewer than the
            preset allows.
        end_of_text: The token id that begins and ends a text.

    Returns:
        A transformers model.

    Example:
        >>> model = new_model(SMOKE, len(tokenizer), tokenizer.bos_token_id)
    """
    import transformers

    from knnlm.models.summed_embeddings import with_summed_embeddings

    model = transformers.OPTForCausalLM(
        transformers.OPTConfig(
            vocab_size=vocab_size,
            hidden_size=preset.width,
            word_embed_proj_dim=preset.width,
            ffn_dim=preset.ffn,
            num_hidden_layers=preset.layers,
            num_attention_heads=preset.heads,
            max_position_embeddings=preset.context,
            dropout=preset.dropout,
            attention_dropout=preset.attention_dropout,
            activation_function="relu",
            do_layer_norm_before=True,
            _remove_final_layer_norm=True,
            tie_word_embeddings=False,
            bos_token_id=end_of_text,
            eos_token_id=end_of_text,
            pad_token_id=None,  # a padding id would freeze that row of the input embedding at zero
        )
    )
    return model if preset.embeddings == 1 else with_summed_embeddings(model, preset.embeddings)
