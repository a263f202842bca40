"""A language model's dimensions, from its configuration alone; no weights are loaded."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from collab.models.four_bits import BYTES
from collab.models.local.dimensions import Dimensions, dimensions_of
from collab.models.local.fast.full_attention import attends_to_all
from collab.recipe import LoraSpec, TrainerSpec
from collab.recipe.model import TransformersModel
from collab.trainers.training.plan.cards import Card
from collab.trainers.training.plan.place import Place, place_of
from collab.trainers.training.plan.shapes import Counts, counts_of


@dataclass(frozen=True)
class Sizes:
    """A language model's dimensions, as its configuration gives them."""

    parameters: int
    weight_bytes: int
    """Of all of them."""
    layer_bytes: int
    """Of those that are in the decoder's layers."""
    adapter_parameters: int
    """Of one adapter."""
    dimensions: Dimensions
    packed: int
    """Parameters that sampling holds once more, in the processor's own layout."""
    shares: bool
    """Whether responses can share a row with what they begin with in common."""
    device: Place

    @property
    def bytes(self) -> int:
        """Of one number."""
        return self.dimensions.bytes


def sizes_of(model: TransformersModel, spec: TrainerSpec, card: Card | None = None) -> Sizes:
    """Those of a model where it runs, or on a `card`, which need not be here.

    Raises:
        ModelUnavailable: the configuration is not at hand.
    """
    return _measure(model.model_dump_json(), spec.lora.model_dump_json(), card)


@cache
def _measure(text: str, lora: str, card: Card | None) -> Sizes:
    model = TransformersModel.model_validate_json(text)
    place = place_of(model, card)
    return measured(model, place, counts_of(model, LoraSpec.model_validate_json(lora)))


def measured(model: TransformersModel, place: Place, counts: Counts) -> Sizes:
    """A model's dimensions in a place, of what was counted."""
    saved = int(counts.linear * (place.itemsize - BYTES)) if model.load_in else 0
    packed = counts.packed_head if model.load_in else counts.packed
    return Sizes(
        parameters=counts.parameters,
        weight_bytes=counts.parameters * place.itemsize - saved,
        layer_bytes=counts.in_layers * place.itemsize - saved,
        adapter_parameters=counts.adapter,
        dimensions=dimensions_of(counts.config, place, place),
        packed=packed if place.packs else 0,
        shares=attends_to_all(counts.config),
        device=place,
    )
