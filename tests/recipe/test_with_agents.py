"""A recipe with other values for some of its agents."""

from collab.recipe import load_recipe


def test_only_what_is_named_changes() -> None:
    recipe = load_recipe("coding")
    name, *others = recipe.team.agents
    changed = recipe.with_agents({name: {"adapter": "adapters/one", "trainable": False}})
    agent = changed.team.agents[name]
    assert (agent.adapter, agent.trainable) == ("adapters/one", False)
    assert agent.prompt == recipe.team.agents[name].prompt
    assert [changed.team.agents[o] for o in others] == [recipe.team.agents[o] for o in others]
    assert recipe == load_recipe("coding"), "the recipe itself is as it was"
    assert changed.with_agents({name: {"adapter": None, "trainable": True}}) == recipe


def test_without_changes_it_is_the_same() -> None:
    assert load_recipe("coding").with_agents({}) == load_recipe("coding")
