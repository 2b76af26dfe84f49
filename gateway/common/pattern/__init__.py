r"""Patterns that clients send: regular expressions as RE2 has them, matched against whole texts in time that
is bounded by pattern and text.

Pure. Python's `re` tries one way after the other, and a client could choose a pattern for which that takes
for ever. Here all ways are followed at once: a pattern is a program (`parsing.compile_pattern`), and each
character of a text costs at most one look at each of its instructions. `program.Match` is fed piece by piece,
so that whoever matches lets others have their turn.

Supported: literals, ``.``, classes with ranges, negation, ``\d \D \w \W \s \S`` and ``[:names:]``,
groups of any kind but looking around, ``|``, ``* + ? {n} {n,} {n,m}`` and their lazy forms, ``^ $ \A \z
\b \B``, ``\Q...\E``, ``\x``, and the flags ``i s``. Refused as wrong, besides what is: what RE2 does not
know either (references, looking around), Unicode classes (``\p``), other flags, and what is too large.
"""
