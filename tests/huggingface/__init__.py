"""Tests of the kNN-LM as a Hugging Face model."""
