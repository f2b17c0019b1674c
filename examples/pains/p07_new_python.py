"""No compiled extension, no hook in the interpreter: what runs is Python's own bytecode."""

import dis
from pathlib import Path

import torch

import jitpkg

package = Path(jitpkg.__file__).parent
extensions = [file for file in package.rglob("*") if file.suffix in {".so", ".pyd", ".dylib"}]
print("compiled extensions in the package:", len(extensions))


@jitpkg.jit
def double(x):
    return x * 2


double(torch.ones(2))
calls = [each for each in dis.get_instructions(double) if each.opname.startswith("CALL")]
print("the function's code calls what was compiled:", bool(calls))
