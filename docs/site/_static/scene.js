// Makes each scene's frame as high as the scene, so that none is cut off. A page that was opened as a file may not look
// into its frames, and keeps the height of the style sheet.
const fit = (frame) => {
  const scene = frame.contentDocument;
  if (scene?.body?.children.length) {
    new ResizeObserver(() => (frame.style.height = `${scene.body.scrollHeight + 2}px`)).observe(scene.body);
  }
};
for (const frame of document.querySelectorAll("iframe.scene")) {
  frame.addEventListener("load", () => fit(frame));
  fit(frame);
}
