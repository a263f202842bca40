"""What a command line gives: options, names of episodes, programs."""
