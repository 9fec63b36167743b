"""Write runtime.txt, dev.txt and clients.txt: what the .in files resolve to today, each in a fresh environment, without
addresses. The clients have an environment of their own: they want other versions than the server."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
HEAD = "# The closure of {} as it was tested; `make lock` writes it. No index addresses.\n"


def frozen(*sources: Path) -> list[str]:
    """Return `name==version` of everything that the sources need, sorted."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        pip = Path(folder, "bin", "pip")
        files = [argument for source in sources for argument in ("-r", str(source))]
        subprocess.run([pip, "install", "--quiet", *files], check=True)
        listed = subprocess.run([pip, "freeze"], check=True, capture_output=True, text=True).stdout
    return sorted(line.lower() for line in listed.split() if "==" in line)


def main() -> None:
    """Write the files."""
    runtime = frozen(HERE / "runtime.in")
    everything = frozen(HERE / "runtime.in", HERE / "dev.in")
    (HERE / "runtime.txt").write_text(HEAD.format("runtime.in") + "\n".join(runtime) + "\n")
    dev = [line for line in everything if line not in runtime]
    (HERE / "dev.txt").write_text(HEAD.format("dev.in, less runtime.txt,") + "\n".join(dev) + "\n")
    (HERE / "clients.txt").write_text(HEAD.format("clients.in") + "\n".join(frozen(HERE / "clients.in")) + "\n")


if __name__ == "__main__":
    main()
