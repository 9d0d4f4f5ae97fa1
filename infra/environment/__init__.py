"""The Python environment: how it is built (setup.sh, private_libc.sh), locked (lock.py) and examined (doctor.py)."""
