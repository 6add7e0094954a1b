"""A run as a picture: time goes down, a line for each unit, an arrow for each frame, order and report.

`turns`: the events of a run, each with its effects, as a tracer is told of them. `sequence`: what is drawn of them, and
how far down. `drawing`: the SVG. None knows a protocol.
"""
