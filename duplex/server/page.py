"""The built pages, as files: the conversation at `/`, the dashboard at `/dashboard`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from aiohttp import web

import duplex

_INDEX = "index.html"
_NOT_BUILT = (
    "The page is not built. Build it with `make page` (or `npm ci && npm run build` in web_client/) and start the server"
    " again; the API works without it.\n"
)


def page_dir(configured: Path | None) -> Path:
    """Return where the page's files are: as configured, else `web_client/dist` beside the package."""
    return configured or Path(duplex.__file__).resolve().parent.parent / "web_client" / "dist"


def add_page(app: web.Application, folder: Path) -> None:
    """Serve every file of `folder` under its own name and each `index.html` under its folder's, or say how to build them.

    Only the files that are there at the start have routes: no path of a request is ever looked up on the disk.
    """
    if not (folder / _INDEX).is_file():
        for route in ("/", "/dashboard"):
            app.router.add_get(route, _not_built)
        return
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = file.relative_to(folder).as_posix()
        for route in _routes(name):
            app.router.add_get(route, _show(file, name))


def _routes(name: str) -> tuple[str, ...]:
    """Return where a file is served: a page with and without the slash at its end."""
    if name == _INDEX:
        return ("/",)
    if name.endswith(f"/{_INDEX}"):
        place = "/" + name.removesuffix(f"/{_INDEX}")
        return (place, f"{place}/")
    return (f"/{name}",)


def _show(file: Path, name: str) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    # The build puts a hash of the content into the names under assets/, and into no others.
    caching = "public, max-age=31536000, immutable" if name.startswith("assets/") else "no-cache"

    async def show(request: web.Request) -> web.StreamResponse:
        return web.FileResponse(file, headers={"Cache-Control": caching})

    return show


async def _not_built(request: web.Request) -> web.StreamResponse:
    return web.Response(status=503, text=_NOT_BUILT)
