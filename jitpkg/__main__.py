"""`python -m jitpkg …`, and the command `jitpkg`."""

import sys

from jitpkg.errors import InvalidArgument


def main() -> None:
    """Run a command of the command line."""
    try:
        from jitpkg import cli
    except InvalidArgument as error:  # the environment's settings are read
        sys.exit(str(error))
    cli.main()


if __name__ == "__main__":
    main()
