"""Handing a trained team on: plain adapters, merged weights, and a folder for the hub."""
