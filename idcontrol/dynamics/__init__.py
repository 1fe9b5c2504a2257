"""Multibody terms of robots and of free rigid bodies."""
