"""Where text comes from, and how it becomes counts."""
