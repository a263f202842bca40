"""What is given in Python in place of names: functions, rows, agents."""
