import { defineConfig, type Plugin } from "vite";

/**
 * The policy the built page sets for itself, whatever the server's headers say: nothing inline, nothing foreign.
 * Only in the build: the development server injects its styles inline.
 */
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; media-src 'self' blob:; " +
  "base-uri 'none'; form-action 'none'";

const contentSecurityPolicy: Plugin = {
  name: "content-security-policy",
  apply: "build",
  transformIndexHtml: () => [
    { tag: "meta", attrs: { "http-equiv": "Content-Security-Policy", content: POLICY }, injectTo: "head-prepend" },
  ],
};

export default defineConfig({
  root: "page",
  plugins: [contentSecurityPolicy],
  build: {
    outDir: "../dist",
    emptyOutDir: true,
    target: "es2022",
    // A data: address would need a looser policy.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    rolldownOptions: { input: ["page/index.html", "page/dashboard/index.html"] },
  },
  worker: { format: "es" },
  server: {
    host: "127.0.0.1",
    // The host stays the page's own, so that the server sees one origin.
    proxy: { "/v1": { target: "http://127.0.0.1:8080", changeOrigin: false } },
  },
});
