#!/usr/bin/env python3
"""Writes a text file as a C array: embed.py FILE SYMBOL HEADER OUTPUT."""
import sys

source, symbol, header, output = sys.argv[1:]
with open(source, "rb") as f:
    text = f.read()
lines = [", ".join(str(b) for b in text[i:i + 20]) for i in range(0, len(text), 20)]
with open(output, "w", encoding="ascii") as f:
    f.write(f"/* Made from {source.rsplit('/', 1)[-1]} by embed.py. */\n")
    f.write(f'#include "{header}"\n\nconst char {symbol}[] = {{\n    ')
    f.write(",\n    ".join(lines) + ",\n    0};\n")
