import { defineConfig } from "vitest/config";

// Names without a hash: the hub answers with ETags, and the committed bundle keeps readable diffs.
export default defineConfig({
  base: "./",
  build: {
    outDir: "../src/shoal/dashboard/static",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: false,
    assetsInlineLimit: 0,
    rollupOptions: {
      output: {
        entryFileNames: "app.js",
        chunkFileNames: "[name].js",
        assetFileNames: (asset) => (asset.names[0]?.endsWith(".css") ? "app.css" : "[name][extname]"),
      },
    },
  },
  esbuild: { legalComments: "none", jsx: "automatic", jsxImportSource: "preact" },
  test: { include: ["test/**/*.test.{ts,tsx}"], environment: "node" },
});
