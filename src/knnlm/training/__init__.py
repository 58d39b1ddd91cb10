"""Ŵ: learning from the rows of a store what could stand in its place; the LM is not run again.

rows           which rows an update sees          fit           the loop, with exact resume
substitutes    what is learned and how it begins  clustering    a store as clusters
learn          the losses                         soft          neighbours in other documents as teachers
temperature    the τ that mixes best with an LM    usual         what is made where nothing else is asked for
"""
