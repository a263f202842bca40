"""Defines a suite: the source of its problems, the fields that agents see, and the reward."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any, Literal

from pydantic import Field, ValidationInfo, field_validator

from collab.naming import SuiteName
from collab.recipe.base import Component, NamedComponent, Spec
from collab.recipe.library import ORIGINS
from collab.recipe.reward import RewardSpec

ALWAYS_HIDDEN = ("test", "canonical_solution")
"""Fields of a `code` problem that no agent ever sees, in any suite."""

SEED_FIELD = "seed"
"""The field that holds the seed of an environment's problem. No agent sees it."""

SEEDS_GENERATOR = "seeds"
"""The generator whose rows contain only a seed."""

TABLE_ENDINGS = (".csv", ".tsv", ".parquet", ".arrow", ".feather", ".xls", ".xlsx")
"""File extensions of tables that collab does not read."""


_KEYS_BY_ORIGIN = {
    "package": ("file",),
    "hub": ("config", "split", "revision"),
    "generate": ("rows", "seed", "levels"),
}
ORIGIN_KEYS = (*ORIGINS, *chain(*_KEYS_BY_ORIGIN.values()))
"""Keys to drop once the rows come from another source. `adapt` and `leave_out` stay."""


def _is_other_origin(origin: str, former: Any, value: Any) -> bool:
    """Return True if rows come from elsewhere than before. The same file of another package, and a
    generator with other options, are the same."""
    if value and origin == "package":
        return False
    if isinstance(value, dict) and "use" not in value:
        return False
    former_use, new_use = (v.get("use") if isinstance(v, dict) else v for v in (former, value))
    return bool(former_use != new_use)


def drop_former_source(task: dict[str, Any], origin: str, value: Any) -> dict[str, Any]:
    """Return a suite's data without the keys of its old row source, which the `value` of `origin`
    replaces.

    The splits are dropped too, because they were ranges of the old rows.
    """
    source, new = task["source"], {origin: value}
    former = {key: source[key] for key in ORIGINS if source.get(key)}
    if not any(_is_other_origin(key, was, new.get(key)) for key, was in former.items()):
        return task
    kept = {key: source[key] for key in source if key == origin or key not in ORIGIN_KEYS}
    return {**{key: task[key] for key in task if key != "splits"}, "source": kept}


def with_seeds(task: dict[str, Any]) -> dict[str, Any]:
    """Return a suite's data, with seeds as the source of a game's rows if it names no other."""
    source = task.get("source", {})
    if task.get("kind") != "environment" or not isinstance(source, dict) or {*ORIGINS} & {*source}:
        return task
    return {**task, "source": {"generate": SEEDS_GENERATOR, **source}}


class SourceSpec(Spec):
    """The source of a suite's rows: exactly one of `package`, `path`, `hub` and `generate`."""

    package: str | None = None
    """An installed distribution that carries the data file `file`."""
    path: str | None = None
    """A `.jsonl` or `.json` file, or one of these with `.gz`, relative to the suite's YAML file."""
    hub: str | None = None
    """A dataset's name on the hub. It needs `pip install 'collab-agents[hub]'`. The whole dataset
    is downloaded for any split."""
    generate: NamedComponent | None = None
    """A generator: `duet`, `pocket_code`, `reasoning_gym`, `same_name`, `signals`, `split_sum`,
    `two_files`, `verifiers`, or your own, `file.py:function`. It is called with a `random.Random`
    and its options, as in `{use: pocket_code, options: {level: 2}}`."""
    rows: int = Field(default=100, ge=1, le=100_000)
    """Number of problems to generate."""
    levels: tuple[int, ...] = ()
    """Levels of difficulty, easiest first, e.g. `[1, 2, 3]`. The `rows` are divided among them in
    order, with the generator's option `level` set, and have a field `level`."""
    seed: int = 0
    """Seed of the generated problems. The same seed gives the same problems."""
    file: str | None = None
    """The data file within `package`."""
    config: str | None = None
    """The configuration of a `hub` dataset that has several."""
    split: str = "train"
    """The split of a `hub` dataset, or several splits in order, e.g. `train+test`."""
    revision: str | None = None
    """A hub revision: branch, tag or commit. A run's folder records the commit that was used."""
    adapt: NamedComponent | None = None
    """Converts each row of the source to a problem: the name of a format, such as `mbpp`, or your
    own `file.py:function`. It is called with a row and its options."""

    leave_out: tuple[str, ...] = ()
    """Rows to skip, by their published `task_id` or `id`."""
    skip_unfit: bool = False
    """Skip the rows that the format `adapt` finds unfit, and report how many. Default: raise an
    error that lists them."""

    def _faults(self) -> Iterator[str]:
        origins = [name for name in ORIGINS if getattr(self, name)]
        if len(origins) != 1:
            yield f"a source takes exactly one of {', '.join(ORIGINS)}, got {origins or 'none'}"
        if self.levels and not self.generate:
            yield (
                "levels work with a generator only; name one with 'generate', or add a field"
                " 'level' to the rows of your file"
            )
        elif self.levels and self.rows < len(self.levels):
            yield f"rows {self.rows} are too few for {len(self.levels)} levels; raise rows"
        if self.package and not self.file:
            yield "a source with 'package' also needs 'file'"

    @property
    def unused_keys(self) -> dict[str, str]:
        """Maps each key without effect to the origin of rows that it works with."""
        fields = type(self).model_fields
        others = [origin for origin in _KEYS_BY_ORIGIN if not getattr(self, origin)]
        keys = {key: origin for origin in others for key in _KEYS_BY_ORIGIN[origin]}
        return {key: of for key, of in keys.items() if getattr(self, key) != fields[key].default}


class TaskSpec(Spec):
    """A suite of problems with one joint reward."""

    name: SuiteName = ""
    description: str = ""
    kind: Literal["code", "text", "environment"] = "code"
    """`code` problems have `prompt`, `entry_point` and `test`, and `text` problems any fields. In
    an `environment`, the agents' actions change a state. Its problems are seeds, with more options
    of the environment in other fields."""
    environment: NamedComponent | None = None
    """The game, e.g. `nim`, or your own, `file.py:Class`. With options: `{use: nim, options:
    {...}}`. The game pays the reward."""
    seats: dict[str, str] = Field(default={}, examples=[{"first": "alice", "second": "bob"}])
    """Maps each seat of the game to its agent. By default, agents take the seats in order."""
    source: SourceSpec = SourceSpec(generate=Component(use=SEEDS_GENERATOR))
    """Source of the rows. By default, each row of an environment is a seed for a game; `rows` and
    `seed` choose them."""
    id_field: str = "task_id"
    """The field that identifies a problem, different in every row. Rows are numbered if none has
    it, or if `id_field` is empty."""
    hidden: tuple[str, ...] = ALWAYS_HIDDEN
    """Fields that no agent and no feedback source sees. For `code` problems, these always include
    `test` and `canonical_solution`."""
    splits: dict[str, str] = Field(default={}, examples=[{"train": "33-132", "test": "133-163"}])
    """Named ranges of rows, `first-last`, counted from 0, both ends included."""
    reward: RewardSpec | None = None
    """The joint reward, inline or by name. An environment pays its own. Without it, `text` problems
    are not scored: a team can run on them, but not be trained or evaluated."""

    @field_validator("hidden")
    @classmethod
    def _always_hidden(cls, hidden: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        always = {"code": ALWAYS_HIDDEN, "environment": (SEED_FIELD,)}.get(
            info.data.get("kind", ""), ()
        )
        return tuple(dict.fromkeys((*always, *hidden)))

    def _faults(self) -> Iterator[str]:
        if self.kind == "environment":
            if self.environment is None:
                yield "kind 'environment' needs environment, e.g. nim"
            if self.reward is not None:
                yield "an environment pays the reward itself; leave out reward"
            return
        if self.environment is not None or self.seats:
            yield f"environment and seats need kind 'environment', but kind is '{self.kind}'"
            return
        missing = [] if "source" in self.model_fields_set else ["source"]
        if self.kind == "code" and self.reward is None:
            missing.append("reward")
        if missing:
            yield (
                f"kind '{self.kind}' needs {' and '.join(missing)}; add what is missing, or extend"
                " a suite, e.g. `extends: humaneval` (in Python: task='humaneval')"
            )
