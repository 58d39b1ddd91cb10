"""Texts to train on."""

from tests.training.conftest import prose as prose
