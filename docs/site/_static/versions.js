// Offers the other versions of the site, as the file beside their folders lists them; a page that another version lacks
// leads to its first page. Where there is one version only, and no such file, nothing is shown.
const select = document.getElementById("versions");
const root = new URL(document.documentElement.dataset.content_root, location.href);
const list = document.createElement("script");
list.src = new URL("../versions.js", root).href;
list.onload = () => {
  const here = select.dataset.version,
    page = location.href.slice(root.href.length).replace(/[?#].*/, "") || "index.html";
  for (const version of Object.keys(window.tickwheelVersions)) {
    select.add(new Option(version, version, version === here, version === here));
  }
  select.parentElement.hidden = select.options.length < 2;
  select.onchange = () => {
    const pages = window.tickwheelVersions[select.value];
    location.href = new URL(`../${select.value}/${pages.includes(page) ? page : "index.html"}`, root).href;
  };
};
document.head.append(list);
