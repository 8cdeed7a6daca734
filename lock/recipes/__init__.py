"""What people use: mutex, cohort, reentrant, multi, election; and the hold and the acquisition they share."""
