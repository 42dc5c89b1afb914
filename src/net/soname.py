"""The name by which a program linked with libcurl would ask for it: `soname.py LIBDIR`, printed. Fails when it is not to be seen."""
import os
import re
import subprocess
import sys

for name in ("libcurl.so", "libcurl.dylib"):
    path = os.path.join(sys.argv[1], name)
    if not os.path.exists(path):
        continue
    command, pattern = (["otool", "-D", path], r"\n(\S+)") if name.endswith("dylib") else (["readelf", "-d", path], r"SONAME.*\[(.+)\]")
    found = re.search(pattern, subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    if found:
        print(found.group(1))
        sys.exit(0)
sys.exit(f"no libcurl with a name of its own in {sys.argv[1]}")
