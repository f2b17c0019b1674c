"""`python -m jitpkg …`"""

from jitpkg.cli import main

if __name__ == "__main__":
    main()
