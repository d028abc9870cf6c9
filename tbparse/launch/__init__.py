"""Running a child: everything it prints passes through at once, and what killed it is known when it ends."""
