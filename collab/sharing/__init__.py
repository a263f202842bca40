"""Exports a trained team: plain adapters, merged weights, and a folder for the hub."""
