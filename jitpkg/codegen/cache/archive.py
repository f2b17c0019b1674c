"""The entries of a cache as one file, for a new machine or an image to begin with.

A zip archive with a member for each entry, named by its key; the archive's comment says which
format the entries have. Whoever imports one trusts it as the programs that it came from: object
code is run, and a key does not tell what is under it. What Triton keeps is left out, since its
files name the folder that they lie in.
"""

from __future__ import annotations

import os
import zipfile
import zlib
from pathlib import Path

from jitpkg.codegen.cache import folder
from jitpkg.codegen.cache.store import FORMAT, KernelCache
from jitpkg.errors import InvalidArgument

_COMMENT = f"jitpkg cache {FORMAT}".encode()
_TIME = (1980, 1, 1, 0, 0, 0)
"""Of every member, so that equal caches give equal files."""


def write(store: KernelCache, file: Path) -> int:
    """Write all entries into a file, which is there as a whole or as it was; returns how many.

    Raises:
        OSError: it cannot be written, or the directory cannot be read.
    """
    temporary = file.with_name(f".{file.name}.{os.getpid()}.tmp")
    count = 0
    try:
        with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.comment = _COMMENT
            for key in store.all_keys():
                data = store.get(key)
                if data is not None:  # else another process has removed it
                    archive.writestr(zipfile.ZipInfo(key, _TIME), data, zipfile.ZIP_DEFLATED)
                    count += 1
        temporary.replace(file)
    finally:
        temporary.unlink(missing_ok=True)
    return count


def read(store: KernelCache, file: Path) -> int:
    """Add the entries of a file that a cache does not have; returns how many.

    Raises:
        InvalidArgument: `write` has not made the file, or for another format, or it is damaged.
        OSError: it cannot be read, or the cache's directory cannot be written.
    """
    if (trouble := store.info().trouble) is not None:
        raise OSError(trouble)
    try:
        with zipfile.ZipFile(file) as archive:
            keys = _checked(archive, file, store.limit)
            new = [key for key in keys if store.get(key) is None]
            for key in new:
                store.put(key, archive.read(key))
    except (zipfile.BadZipFile, EOFError, zlib.error) as error:
        raise InvalidArgument(f"{file} is no file of an export, or damaged: {error}.") from None
    return len(new)


def _checked(archive: zipfile.ZipFile, file: Path, most: int) -> list[str]:
    if archive.comment != _COMMENT:
        said = archive.comment.decode(errors="replace")
        expected = _COMMENT.decode()
        raise InvalidArgument(
            f"{file} has entries of the format {said!r}, and this jitpkg reads {expected!r}: export"
            " them with the version that is to import them."
        )
    members = archive.infolist()
    wrong = [m.filename for m in members if not folder.KEY.fullmatch(m.filename)]
    if wrong or sum(member.file_size for member in members) > most:
        why = f"{wrong[0]!r} is no entry" if wrong else f"it holds more than {most} bytes"
        raise InvalidArgument(f"{file} is no file of an export: {why}.")
    return archive.namelist()
