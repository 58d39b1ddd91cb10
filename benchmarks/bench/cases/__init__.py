"""The cases, each a module with TITLE and `measure(setting)`, in the order of the page."""

from types import ModuleType

from bench.cases import building, exact, generation, growth, indexes, sweeps

CASES: dict[str, ModuleType] = {
    "exact": exact,
    "indexes": indexes,
    "generation": generation,
    "building": building,
    "sweeps": sweeps,
    "growth": growth,
}
