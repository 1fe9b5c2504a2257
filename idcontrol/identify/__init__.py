"""Identification of a robot from logs of its motion."""
