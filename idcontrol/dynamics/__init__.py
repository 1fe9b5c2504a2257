"""Multibody terms of machines and of free rigid bodies."""
