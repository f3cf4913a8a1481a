"""What carries a virtual assignment out: one interface, `in_memory` is the reference."""
