"""What an instruction does: decoding, stack effects, what is bound at each point, verification.

Needs no torch and imports nothing of the package.
"""
