"""Run a team from a script and print its answers.

Usage: python examples/embed.py humaneval/12
"""

import sys

import collab


def main(address: str, model: str | None = None) -> None:
    team = collab.load("coding", model=model)
    for episode in team.run(address, samples=2, seed=1).episodes:
        if episode.score is not None:  # a failed episode has none
            print(f"{episode.id}: reward {episode.reward} of {episode.score.maximum}")
        print(episode.answer)


if __name__ == "__main__":
    main(*sys.argv[1:])
