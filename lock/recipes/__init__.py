"""What people use: mutex, read-write lock, semaphore, cohort, reentrant, multi, election; and what they share."""
