"""Made-up but realistic results for the tests, and results with hostile text everywhere."""

import math
import random

from knnlm.evaluation.explanation import ExplainedToken, Passage, RetrievedNeighbor
from knnlm.report.results import ConditionResult, Curve, DemoResults

HOSTILE = '</script><script>alert(1)</script>&"\'<b> [red] $\\bad{$ id="x"'
_TEXT = (
    "Return a new list that holds the items of iterable in ascending order.\n\n"
    "The optional argument key is a function of one argument that is called for each item; "
    "reverse is a boolean. If it is true, the order is reversed.\n"
    "    >>> sorted('badc')\n    ['a', 'b', 'c', 'd']\n"
    "The sort is stable: items that compare equal keep the order that they had. "
    "Raises TypeError if two items cannot be compared. See also list.sort(), which changes the "
    "list in place and returns None, and heapq.nsmallest(), which is faster where only a few "
    "items are wanted.\n"
)


def condition(
    key: str = "att",
    metric: str = "l2",
    search: str = "exact",
    interp: float = 33.1,
    recall: float = 1.0,
) -> ConditionResult:
    base = 41.27
    return ConditionResult(
        key=key,
        metric=metric,
        search=search,
        score="exact" if search == "exact" else "index",
        base_ppl=base,
        component_ppl=math.inf,
        interp_ppl=interp,
        oracle_ppl=interp * 0.8,
        base_word_ppl=base**1.6,
        interp_word_ppl=interp**1.6,
        oracle_word_ppl=(interp * 0.8) ** 1.6,
        tokens=48213,
        words=30877,
        lam=0.27,
        tau=12.5 if metric == "l2" else 0.04,
        tau_units=0.71,
        k=256,
        valid_ppl=interp * 0.9,
        coverage=0.813,
        helping=0.374,
        recall=recall,
        ratio_ci95=(interp / base - 0.008, interp / base + 0.008),
        ratio_ci95_unit="document",
        calibrated_ppl=base * 0.95,
        calibrated_interp_ppl=interp * 0.98,
        calibrated_ratio_ci95=(interp / base * 1.02, interp / base * 1.04),
        seconds=8.4,
    )


def conditions() -> tuple[ConditionResult, ...]:
    settings = [(key, metric) for key in ("att", "ffn") for metric in ("l2", "ip")]
    ppl = {"att": {"l2": 33.14, "ip": 34.02}, "ffn": {"l2": 35.58, "ip": 36.47}}
    exact = [condition(key, metric, interp=ppl[key][metric]) for key, metric in settings]
    near = [
        condition(key, metric, "IVF256,Flat", ppl[key][metric] + 0.21, recall=0.934)
        for key, metric in settings
    ]
    return (*exact, *near)


def curves(parameter: str) -> tuple[Curve, ...]:
    result = []
    for index, one in enumerate(conditions()):
        if parameter == "tau":
            x = tuple(0.05 * 1.6**i for i in range(14))
            y = tuple(one.interp_ppl * (1 + 0.01 * abs(math.log(v / 0.7)) ** 2) for v in x)
        else:
            x = tuple(i / 20 for i in range(21))
            depth = 41.27 - one.interp_ppl
            y = tuple(
                41.27 - depth * (1 - ((v - 0.3) / 0.3) ** 2) if v < 0.9 else math.inf for v in x
            )
        label = f"{one.key} {one.metric} {'exact' if index < 4 else 'IVF'}"
        lowest, at = min(zip(y, x, strict=True))
        result.append(Curve(label, x, y, (at, lowest)))
    return tuple(result)


def passage() -> Passage:
    chance = random.Random(0)
    tokens = []
    pieces = _TEXT.replace(" ", "\0 ").replace("\n", "\0\n").split("\0")
    for index, piece in enumerate(pieces):
        lm = math.log(chance.betavariate(0.5, 1.5) + 1e-5)
        vote = chance.random() * 0.9 if chance.random() < 0.6 else 0.0
        mixed = math.log(0.73 * math.exp(lm) + 0.27 * vote)
        knn = math.log(vote) if vote else -math.inf
        neighbors = tuple(
            RetrievedNeighbor(
                before=" ".join(
                    ["the items", "of a sequence\n", "are given", "in order,"] * (1 + j)
                ),
                token=piece if j == 0 and vote else " none",
                weight=max(vote, 0.3) / (j + 1),
                document=f"library/{chance.choice(['list', 'heapq', 'bisect'])}.py",
                is_target=j == 0 and vote > 0,
            )
            for j in range(index % 6)
        )
        tokens.append(ExplainedToken(piece, lm, knn, mixed, neighbors))
    return Passage("functions/sorted", "att, l2, exact", tuple(tokens))


def results() -> DemoResults:
    return DemoResults(
        title="knnlm demo",
        conditions=conditions(),
        tokens=48213,
        words=30877,
        entries=402118,
        temperature_curves=curves("tau"),
        lambda_curves=curves("lambda"),
        passage=passage(),
        facts=(("model", "4 layers, 256 wide"), ("parameters", "5,213,184"), ("torch", "2.9.0")),
        commands=("knnlm build MODEL --text notes/ --out STORE", "knnlm serve STORE"),
        command="knnlm demo --out demo",
    )


def hostile_results() -> DemoResults:
    bad = HOSTILE
    neighbor = RetrievedNeighbor(bad, bad, 0.5, bad, True)
    token = ExplainedToken(bad, -1.0, -math.inf, -1.3, (neighbor,))
    curve = Curve(bad, (0.5, 1.0), (10.0, 9.0), (1.0, 9.0))
    return DemoResults(
        title=bad,
        conditions=(condition(bad, bad, bad),),
        tokens=1,
        words=1,
        entries=1,
        temperature_curves=(curve,),
        lambda_curves=(curve,),
        passage=Passage(bad, bad, (token,)),
        facts=((bad, bad),),
        commands=(bad,),
        command=bad,
    )
