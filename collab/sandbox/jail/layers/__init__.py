"""Isolation layers between a program and this machine: each separately, and all in order."""
