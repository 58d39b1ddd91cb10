"""How large a reproduction is: texts, base LMs, and the points of every sweep. Numbers only;
nothing runs here.

`sizes` are the rows that the texts give, known beforehand so that a plan needs neither text nor
model; a run measures its own. The paper scale has the constants of the paper's code (field notes F1
to F7, 1.2)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from knnlm.errors import UsageError, unknown
from knnlm.experiments import scales as embedded
from knnlm.experiments.base_lms import BaseLM, ExistingLM, Shape
from knnlm.experiments.texts import Corpus, Portions, Sizes, Texts, open_texts
from knnlm.models.presets import LAPTOP, PAPER, Preset


@dataclass(frozen=True, kw_only=True)
class Learning:
    """The points of the sweeps over what can be learned instead of the datastore."""

    sizes: tuple[int, ...]
    """n: embeddings for each vocabulary entry, in order."""
    seeds: int
    """How often each is learned from another start."""
    seeds_of_largest: int
    """The same for the largest n, which takes as long as the others together."""
    rates: tuple[float, ...]
    """Learning rates, of which the best on validation is used; where it is the lowest or the
    highest, the next beyond is tried too."""
    epochs: int
    adaptive: int
    """n of the sizes that follow frequency or loss, and of the larger of the two interpolated
    losses."""
    softmaxes: tuple[int, ...]
    """R: softmaxes of a mixture."""
    clusters: tuple[int, ...]
    """Clusters for each vocabulary entry; the first number is learned further too."""
    mlp_widths: tuple[int, ...]
    """Inner widths of an MLP over att and ffn."""
    soft: tuple[float, ...]
    """Shares of the loss that neighbors teach."""
    fewer_clusters: tuple[float, ...] = ()
    """Clusters for each vocabulary entry, one or fewer: how far the datastore can be compressed."""
    lam: float = 0.25
    """λ of the interpolated loss."""


@dataclass(frozen=True, kw_only=True)
class RuledOut:
    """The points of the hypotheses that the paper ruled out."""

    lists: tuple[int, ...]
    """How many of the LM's likeliest tokens."""
    ensemble: tuple[str, ...]
    """Further LMs, in the order in which they join."""


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Everything that differs between a test of seconds and the paper's own setting."""

    name: str
    text: Corpus
    portions: Portions
    """How much of each text is used."""
    queries: int | None
    """Tokens of the validation and of the test text that are searched for, drawn at random; None is
    all. Each has all the context that its text gives it."""
    sizes: Sizes
    lms: tuple[BaseLM, ...]
    seeds: tuple[str, ...]
    """LMs that differ from `main` by their seed only, `main` first."""
    widths: tuple[str, ...]
    """LMs that differ by their width, in order."""
    checkpoints: tuple[tuple[str, int], ...]
    """(LM, update) pairs at which the main effects are measured."""
    k: int
    ks: tuple[int, ...]
    fractions: tuple[float, ...]
    draws: int
    small: float
    """The fraction of the figure `small_temperature`."""
    zeros: tuple[float, ...]
    factories: tuple[tuple[str, int], ...]
    """(factory, nprobe) pairs: which approximation does what."""
    components: tuple[int, ...]
    """Principal components to reduce states to."""
    learning: Learning
    ruled_out: RuledOut
    factory: str | None = None
    """The index of the paper's arm; None is the default for the number of rows, the paper's where
    that is large."""
    others: tuple[ExistingLM, ...] = ()
    """Further LMs of appendix A."""
    least: int = 10
    """Occurrences of a word below which it is left out of the analysis of words."""

    def lm(self, name: str) -> BaseLM:
        """The base LM of that name."""
        return next(lm for lm in self.lms if lm.name == name)

    def other(self, name: str) -> ExistingLM | None:
        """The LM of that name that is not trained here, if it is one."""
        return next((lm for lm in self.others if lm.name == name), None)

    def clusters(self, lm: str, a_word: float) -> int:
        """How many clusters so many for each vocabulary entry are: no more than entries."""
        return max(1, min(int(a_word * self.shape(lm).vocab_size), self.sizes.train))

    def shape(self, name: str) -> Shape:
        """Layers, width and vocabulary of any LM."""
        return (self.other(name) or self.lm(name)).shape


def _variants(
    base: Preset,
    widths: tuple[int, ...],
    seeds: int,
    free: tuple[int, ...],
    memorised: tuple[int, ...],
    far: int | None = None,
) -> tuple[BaseLM, ...]:
    """`main`, one LM for each other width, one without dropout kept at the updates `free`, further
    seeds, one without dropout trained for `far` updates, long after its best; LMs with two and
    three embeddings a token, one that goes on from `main` without dropout for `memorised` updates,
    and two that learn from it."""

    def without_dropout(name: str, keep: tuple[int, ...]) -> BaseLM:
        free = replace(base, dropout=0.0, attention_dropout=0.0)
        return BaseLM(name, replace(free, name=f"{base.name}-{name}", steps=keep[-1], keep=keep))

    def memorizing() -> BaseLM:
        """Goes on from `main` without decay, at a quarter of its highest rate: at all of it, it
        would first become another LM; at a tenth, with which `main` ended, it would not memorize
        within as many updates."""
        lm = without_dropout("memorised", memorised)
        preset = replace(lm.preset, lr=base.lr / 4, warmup=0, weight_decay=0.0)
        return replace(lm, preset=preset, begin="main")

    def widened(rows: int) -> BaseLM:
        return BaseLM(
            f"{rows}V",
            replace(base, name=f"{base.name}-{rows}V", embeddings=rows, keep=()),
            seed=rows,
        )

    resized = [replace(base, name=f"{base.name}-width-{w}", width=w) for w in widths]
    return (
        BaseLM("main", base),
        *(BaseLM(f"width-{p.width}", p) for p in resized),
        without_dropout("no-dropout", free),
        *(BaseLM(f"seed-{s}", base, s) for s in range(1, seeds)),
        *((without_dropout("overfitted", (far,)),) if far else ()),
        widened(2),
        widened(3),
        memorizing(),
        BaseLM("taught-by-lm", replace(base, keep=()), seed=1, teacher="lm"),
        BaseLM("taught-by-knn-lm", replace(base, keep=()), seed=1, teacher="knn-lm"),
    )


_TENTHS = tuple(round(0.1 * i, 1) for i in range(1, 10))
_LISTS = (32, 64, 128, 512, 1024)
_SMOKE = replace(embedded.SMOKE.preset, keep=(20, 40))
_DEMO = replace(embedded.DEMO.preset, keep=(100, 400))

SMOKE_SCALE = Scale(
    name=embedded.SMOKE.name,
    text="embedded",
    portions=embedded.SMOKE.portions,
    queries=400,
    sizes=embedded.SMOKE.sizes._replace(valid=400, test=400),
    lms=_variants(_SMOKE, (16,), 2, (20, 40), (20, 40)),
    seeds=("main", "seed-1"),
    widths=("width-16", "main"),
    checkpoints=(("main", 20), ("no-dropout", 40)),
    k=embedded.SMOKE.k,
    ks=(1, 8, 64),
    fractions=(0.25, 1.0),
    draws=2,
    small=0.25,
    zeros=(0.26,),
    factories=(("IVF32,Flat", 4), ("PQ8x4np", 1)),
    components=(16,),
    factory="IVF32,PQ8x4np",
    least=3,
    learning=Learning(
        sizes=(1, 2),
        seeds=2,
        seeds_of_largest=2,
        rates=(1e-2, 3e-2),
        epochs=1,
        adaptive=2,
        softmaxes=(2,),
        clusters=(1,),
        mlp_widths=(8,),
        soft=(0.5,),
        fewer_clusters=(0.25,),
    ),
    ruled_out=RuledOut(lists=(8, 64), ensemble=("seed-1", "2V", "3V")),
)
DEMO_SCALE = Scale(
    name=embedded.DEMO.name,
    text="embedded",
    portions=embedded.DEMO.portions,
    queries=None,
    sizes=embedded.DEMO.sizes,
    lms=_variants(_DEMO, (64, 32), 2, (100, 400), (100, 400)),
    seeds=("main", "seed-1"),
    widths=("width-32", "width-64", "main"),
    checkpoints=(("main", 100), ("no-dropout", 400)),
    k=embedded.DEMO.k,
    ks=(1, 4, 16, 64, 256, 1024, 4096),
    fractions=(0.05, 0.25, 0.5, 1.0),
    draws=2,
    small=0.05,
    zeros=(0.26,),
    factories=(("IVF512,Flat", 1), ("IVF512,Flat", 32), ("IVF512,PQ8np", 512)),
    components=(64,),
    learning=Learning(
        sizes=(1, 2, 3),
        seeds=2,
        seeds_of_largest=2,
        rates=(1e-4, 3e-4),
        epochs=3,
        adaptive=3,
        softmaxes=(2,),
        clusters=(2,),
        mlp_widths=(256,),
        soft=(0.5,),
        fewer_clusters=(0.125, 1),
    ),
    ruled_out=RuledOut(lists=_LISTS, ensemble=("seed-1", "2V", "3V")),
)
LAPTOP_SCALE = Scale(
    name="laptop",
    text="wikitext-2",
    portions=Portions(documents=60, valid_characters=6_000, test_characters=6_000),
    queries=10_000,
    sizes=Sizes(304_391, 10_000, 10_000),
    lms=_variants(LAPTOP, (128, 64, 384), 2, (200, 400, 800), (300, 1000, 3000), 2000),
    seeds=("main", "seed-1"),
    widths=("width-64", "width-128", "main", "width-384"),
    checkpoints=(
        *(("main", step) for step in (100, 400, 800)),
        *(("no-dropout", step) for step in (200, 400, 800)),
        ("overfitted", 2000),
    ),
    k=1024,
    ks=(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096),
    fractions=(0.05, 0.1, 0.25, 0.5, 0.75, 1.0),
    draws=3,
    small=0.05,
    zeros=(0.05, 0.26, 0.5),
    factories=(
        *(("IVF512,Flat", nprobe) for nprobe in (1, 4, 16)),
        *((f"PQ{size}np", 1) for size in (8, 16, 32, 64)),
        *(("IVF512,PQ64np", nprobe) for nprobe in (1, 4, 16)),
    ),
    components=(128, 64),
    learning=Learning(
        sizes=(1, 2, 3, 9),
        seeds=3,
        seeds_of_largest=1,
        rates=(1e-4, 3e-4),
        epochs=3,
        adaptive=3,
        softmaxes=(2, 3),
        clusters=(2, 3, 6),
        mlp_widths=(256, 1024),
        soft=(0.5, 1.0),
        fewer_clusters=(0.125, 0.25, 0.5, 1),
    ),
    ruled_out=RuledOut(lists=_LISTS, ensemble=("seed-1", "2V", "3V")),
)
# Appendix A's models, fine-tuned on WikiText-103 as its numbers are (F3).
_GPT2 = tuple(
    ExistingLM(name, f"neulab/{name}-finetuned-wikitext103", layers, width, 50_257)
    for name, layers, width in (
        ("distilgpt2", 6, 768),
        ("gpt2", 12, 768),
        ("gpt2-medium", 24, 1024),
        ("gpt2-large", 36, 1280),
    )
)
# 112,735,284 BPE tokens; validation and test are 217,646 and 245,569 words at 1.092 tokens a word
# (F1, F3).
PAPER_SCALE = Scale(
    name="paper",
    text="wikitext-103",
    portions=Portions(),
    queries=None,
    sizes=Sizes(112_735_284, 237_669, 268_161),
    # the memorizing LM goes on for 92 and 129 epochs of 12,233 updates (tab:overfit)
    lms=_variants(
        replace(PAPER, keep=(20_000, 100_000)),
        (512, 256),
        2,
        (20_000, 100_000),
        (1_126_000, 1_578_000),
    ),
    seeds=("main", "seed-1"),
    widths=("width-256", "width-512", "main"),
    checkpoints=(("main", 20_000), ("main", 100_000), ("no-dropout", 100_000)),
    k=1024,
    ks=(1, 4, 16, 64, 256, 1024, 4096),
    fractions=(0.05, *_TENTHS, 1.0),
    draws=1,
    small=0.05,
    zeros=(0.05, 0.26, 0.5),
    factories=(("IVF4096,PQ64np", 8), ("IVF4096,PQ64np", 1024), ("IVF4096,PQ32np", 32)),
    components=(512,),
    others=_GPT2,
    learning=Learning(
        sizes=tuple(range(1, 10)),
        seeds=3,
        seeds_of_largest=3,
        rates=(1e-4, 3e-4),
        epochs=3,
        adaptive=3,
        softmaxes=(2, 3, 4, 5),
        clusters=(2, 3),
        mlp_widths=(1024, 4096),
        soft=(0.5, 1.0),
        fewer_clusters=(0.125, 0.25, 0.5, 1),
    ),
    ruled_out=RuledOut(lists=_LISTS, ensemble=("seed-1", "2V", "3V")),
)

SCALES = {s.name: s for s in (SMOKE_SCALE, DEMO_SCALE, LAPTOP_SCALE, PAPER_SCALE)}


def scale_named(name: str) -> Scale:
    """The scale of that name."""
    if name not in SCALES:
        raise unknown("scale", name, SCALES)
    return SCALES[name]


def with_models(scale: Scale, sources: Sequence[str]) -> Scale:
    """The scale with further LMs for appendix A."""
    taken = {lm.name for lm in scale.lms} | {lm.name for lm in scale.others}
    named: dict[str, str] = {}
    for source in sources:
        name = "".join(c if c.isalnum() or c in "-." else "-" for c in source.strip("/"))
        if name in taken or name in named:
            raise UsageError(f"the name '{name}' of --model {source} is taken: rename its folder")
        named[name] = source
    return replace(
        scale, others=(*scale.others, *(ExistingLM(name, source) for name, source in named.items()))
    )


def texts(scale: Scale, data: Path | None) -> Texts:
    """The texts of a scale: embedded, from a WikiText folder, or from the hub."""
    return open_texts(scale.text, scale.portions, data)
