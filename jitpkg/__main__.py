"""`python -m jitpkg …`"""

import sys

from jitpkg.errors import InvalidArgument

if __name__ == "__main__":
    try:
        from jitpkg.cli import main
    except InvalidArgument as error:  # the environment's settings are read
        sys.exit(str(error))
    main()
