"""`tandem init`: a use case of your own that runs at once."""

import argparse
import sys
from pathlib import Path

from pipelines.scaffold import create_use_case
from pipelines.text_layout import write_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.add_argument("name", metavar="NAME", help="small letters, digits and _; becomes the folder and, with -, the registry name")
    parser.add_argument("--dir", default=".", metavar="DIR", help="where the folder NAME is made (default: the current folder)")


def execute(arguments: argparse.Namespace) -> int:
    """Writes the folder and says what to do next."""
    folder = create_use_case(arguments.name, Path(arguments.dir))
    write_text(sys.stdout, f"made {folder}\n")
    write_text(
        sys.stdout, f"next: cd {folder.parent} && tandem run {folder.name}; README.md and pipeline.toml there explain every file and key\n"
    )
    return 0
