"""The shared library exports exactly the functions of the committed list, and pawl.h declares each of them."""
import re
import subprocess
import sys

library, listed_file, header = sys.argv[1:4]
output = subprocess.run(['nm', '-D', '--defined-only', library], check=True, capture_output=True, text=True).stdout
exported = {line.split()[-1].split('@')[0] for line in output.splitlines() if line.split()}
listed = set(open(listed_file, encoding='utf-8').read().split())
declared = set(re.findall(r'\b(pawl_[a-z_]+)\(', re.sub(r'/\*.*?\*/', '', open(header, encoding='utf-8').read(), flags=re.S)))
faults = []
for names, what in ((exported - listed, 'exported but not listed'), (listed - exported, 'listed but not exported'),
                    (listed - declared, 'listed but not declared in pawl.h'), (declared - listed, 'declared but not listed')):
    faults += [f'{name}: {what}' for name in sorted(names)]
print('\n'.join(faults) or f'{len(exported)} functions')
sys.exit(bool(faults))
