"""The built page, as files."""

from __future__ import annotations

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
    """Serve `folder` at `/`, or say how to build it."""
    index = folder / "index.html"

    async def show_index(request: web.Request) -> web.StreamResponse:
        if not index.is_file():
            return web.Response(status=503, text=_NOT_BUILT)
        return web.FileResponse(index, headers={"Cache-Control": "no-cache"})

    app.router.add_get("/", show_index)
    if index.is_file():
        app.router.add_static("/", folder)
