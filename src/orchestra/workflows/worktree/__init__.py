"""A loop in a copy of the project; its result comes to the project as one patch, through the gate."""
