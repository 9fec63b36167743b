"""The built page, as files."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from aiohttp import web

import duplex

_NOT_BUILT = (
    "The page is not built. Build it with `make page` (or `npm ci && npm run build` in web_client/) and start the server"
    " again; the API works without it.\n"
)


def page_dir(configured: Path | None) -> Path:
    """Return where the page's files are: as configured, else `web_client/dist` beside the package."""
    return configured or Path(duplex.__file__).resolve().parent.parent / "web_client" / "dist"


def add_page(app: web.Application, folder: Path) -> None:
    """Serve every file of `folder` under its own name and `index.html` at `/`, or say how to build them.

    Only the files that are there at the start have routes: no path of a request is ever looked up on the disk.
    """
    if not (folder / "index.html").is_file():
        app.router.add_get("/", _not_built)
        return
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = file.relative_to(folder).as_posix()
        app.router.add_get("/" if name == "index.html" else f"/{name}", _show(file, name))


def _show(file: Path, name: str) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    # The build puts a hash of the content into the names under assets/, and into no others.
    caching = "public, max-age=31536000, immutable" if name.startswith("assets/") else "no-cache"

    async def show(request: web.Request) -> web.StreamResponse:
        return web.FileResponse(file, headers={"Cache-Control": caching})

    return show


async def _not_built(request: web.Request) -> web.StreamResponse:
    return web.Response(status=503, text=_NOT_BUILT)
