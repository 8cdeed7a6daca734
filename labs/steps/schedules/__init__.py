"""Every schedule of a few purchases, tried by a machine: which orders sell an item twice?"""
