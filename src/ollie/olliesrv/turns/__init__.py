"""The turns of one agent: its queue, the driver of the engine, its conversation files, its plan and its state."""
