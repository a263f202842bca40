"""What a team's play says before anyone trains it."""
