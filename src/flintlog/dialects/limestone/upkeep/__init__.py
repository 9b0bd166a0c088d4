"""What can be done to a limestone directory while no store has it open."""
