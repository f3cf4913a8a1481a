"""Commands for operators: outages, the audit, diagnostics."""
