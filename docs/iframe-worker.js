/* The site's search runs in a worker, and browsers start none for a page that was opened from the disk.
 * There, a hidden frame takes the worker's place. Both sides get copies of a message, as with a worker: each changes
 * what it has. Without this file, Zensical would load one from the web. */
if (location.protocol === "file:") {
  window.Worker = class {
    constructor(url) {
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.ready = new Promise((resolve) => {
        this.frame.addEventListener("load", () => this.load(url, resolve), { once: true });
      });
      document.body.append(this.frame);
    }

    load(url, resolve) {
      const inner = this.frame.contentWindow;
      inner.postMessage = (data) => {
        const copy = structuredClone(data);
        setTimeout(() => this.onmessage?.({ data: copy }));
      };
      const script = inner.document.createElement("script");
      script.src = new URL(url, location.href).href;
      script.onload = () => resolve(inner);
      script.onerror = (event) => this.onerror?.(event);
      inner.document.head.append(script);
    }

    async postMessage(data) {
      const copy = structuredClone(data);
      (await this.ready).onmessage({ data: copy });
    }

    terminate() {
      this.frame.remove();
    }
  };
}
