"""Two walkers try to meet. Each knows only its own place."""

from collab.environments import Environment, Observation, Step

STEPS = {"left": -1, "right": 1, "stay": 0}


class Meeting(Environment):
    """A path of `length` places. The walkers win if they meet within three turns."""

    seats = ("ann", "bob")
    turns = 3

    def __init__(self, *, length: int = 5):
        self.length, self.places, self.played, self.over = length, {}, 0, False

    def reset(self, random):
        """Start a new game. Draw everything random from `random`."""
        self.played, self.over = 0, False
        self.places = {seat: random.randrange(self.length) for seat in self.seats}
        return Step(self.observed())

    def step(self, actions):
        """Move the walkers. Words that are not moves change nothing."""
        self.played += 1
        for seat, word in actions.items():
            place = self.places[seat] + STEPS.get(word.strip(), 0)
            self.places[seat] = min(max(place, 0), self.length - 1)
        met = len(set(self.places.values())) == 1
        self.over = met or self.played == self.turns
        return Step(
            {} if self.over else self.observed(),
            rewards=float(met),
            solved=met,
            summary="they meet" if met else "they walk",
        )

    def render(self):
        """The state as text, for people. Agents never see it."""
        marks = {place: seat[0] for seat, place in self.places.items()}
        return "".join(marks.get(place, ".") for place in range(self.length))

    def observed(self):
        """Each walker's view, by seat. Templates get it as `{{ observation }}`."""
        return {
            seat: Observation(f"You are at {place} of {self.length}.", place=place)
            for seat, place in self.places.items()
        }

    def moves(self):
        """The legal moves, for checks and random play."""
        return {} if self.over else {seat: list(STEPS) for seat in self.seats}
