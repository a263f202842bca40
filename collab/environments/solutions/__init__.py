"""What is known of the games: values and best play, by trying all moves."""
