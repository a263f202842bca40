"""The evaluations of one training run: when they are due, what they found, which was the best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from collab.recipe import EvaluationSpec, Recipe
from collab.records import Problem
from collab.seeds import seed_of
from collab.telemetry import operation
from collab.trainers.learner.policy import Policies
from collab.trainers.learner.weights_to_sampler import publish
from collab.trainers.training.events import Evaluation, Gain, HeldOut
from collab.trainers.training.folder import TrainingFolder
from collab.trainers.training.step import Report
from collab.trainers.training.validation import compare, evaluate, mean_return


class Evaluations:
    """Plays the held-out tasks before training, after it and in between."""

    def __init__(
        self,
        recipe: Recipe,
        spec: EvaluationSpec | None,
        problems: Sequence[Problem],
    ) -> None:
        self._recipe, self._spec, self._problems = recipe, spec, problems
        self._found: dict[int, Evaluation] = {}
        self._best: tuple[float, int] | None = None

    @property
    def best_step(self) -> int | None:
        """The step whose sampled return is the highest; None before the first evaluation."""
        return self._best[1] if self._best else None

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        best, step = self._best or (None, None)
        return {"best": best, "best_step": step}

    def restore(self, state: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> None:
        """Take up a checkpoint's state and the evaluations among the rows of `metrics.jsonl`."""
        if state["best_step"] is not None:
            self._best = (state["best"], state["best_step"])
        found = [Evaluation.model_validate(r) for r in rows if r["type"] == "evaluation.finished"]
        self._found = {evaluation.step: evaluation for evaluation in found}

    def due(self, step: int, tokens: int, *, last: bool) -> bool:
        """Whether to evaluate after `step` steps, in which so many `tokens` were generated.

        After an interruption, what was left out is due.
        """
        if self._spec is None or step in self._found:
            return False
        in_between = self._spec.every is not None and step % self._spec.every == 0
        return not self._found or in_between or last or self._passed_mark(tokens)

    def _passed_mark(self, tokens: int) -> bool:
        """Whether a multiple of `every_tokens` was passed since the last evaluation."""
        every = self._spec.every_tokens if self._spec is not None else None
        if every is None:
            return False
        before = self._found[max(self._found)].tokens or 0
        return tokens // every > before // every

    async def play(
        self, step: int, tokens: int, policies: Policies, folder: TrainingFolder, report: Report
    ) -> Evaluation:
        """Evaluate the team as it is, after `step` steps and so many generated `tokens`.

        The episodes and what was found go to `folder`.
        """
        spec = self._spec
        assert spec is not None, "an evaluation is due"
        done, total = 0, len(self._problems) * (spec.samples + spec.greedy)

        def keep(played: HeldOut) -> None:
            nonlocal done
            done += 1
            folder.append_held_out(played)
            report("evaluation", done, total)

        report("evaluation", 0, total)
        await publish(policies)
        sizes = folder.sizes()
        try:
            with operation("evaluation", {"collab.step": step}) as span, span.entered():
                found = await evaluate(
                    policies.acting(self._recipe),
                    policies.models,
                    self._problems,
                    spec,
                    step=step,
                    tokens=tokens,
                    seed=seed_of(self._recipe.seed, "evaluation"),
                    keep=keep,
                )
                span.evaluated("return", mean_return(found.sampled))
        except BaseException:
            # A part of an evaluation tells nothing: it is played again as a whole.
            folder.cut(sizes)
            raise
        folder.append_metrics(found.model_dump(mode="json"))
        self._found[step] = found
        if found.sampled and (self._best is None or mean_return(found.sampled) > self._best[0]):
            self._best = (mean_return(found.sampled), step)
        return found

    def summary(self) -> dict[str, Any]:
        """What `run.json` ends with."""
        gains = {name: gain.model_dump() for name, gain in self.gains().items()}
        return {"best_step": self.best_step, "gains": gains}

    def gains(self) -> dict[str, Gain]:
        """What has changed from the first evaluation to the last: `sampled`, and `greedy`."""
        if len(self._found) < 2:
            return {}
        steps = sorted(self._found)
        first, last = self._found[steps[0]], self._found[steps[-1]]
        found = {
            "sampled": compare(first.sampled, last.sampled),
            "greedy": compare(first.greedy, last.greedy),
        }
        return {name: gain for name, gain in found.items() if gain is not None}
