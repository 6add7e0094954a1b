"""Frames between units as bytes. docs/handover.md has the format, byte by byte."""

from dispatcher.handover.wire.header import encode
from dispatcher.handover.wire.rows import decode, encode_rows

__all__ = ["decode", "encode", "encode_rows"]
