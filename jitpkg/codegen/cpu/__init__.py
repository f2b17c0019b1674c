"""The CPU printer: schedules to LLVM IR text."""
