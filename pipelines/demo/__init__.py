"""`tandem demo`: the whole cycle on one machine, by the commands and pages that people use, and a record of what it did."""
